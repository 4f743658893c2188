"""A run folder as one HTML file (`report.write_report`) and one PNG (`picture.write_picture`)."""
