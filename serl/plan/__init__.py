"""What a run needs before it is paid for: memory of each GPU, and time of a step (`serl plan`).

    known       models and GPUs by name
    setting     what is planned: a config's options, GPUs, ZeRO stage, lengths
    parameters  how many there are, counted on the model itself without its data
    live        bytes that are alive while code runs on tensors without data
    made_up     trajectories, and what a teacher reads of them
    micro       what one micro-batch of the update needs beside the model's states, by running it so
    depth       what that is with all layers, from models of few
    memory      all parts of a GPU's memory, and when each is there
    fit         what to change where it is too much
    time        seconds of a step, from a run's, from a given throughput, or from floating-point operations
    report      all of it for people and as JSON
"""
