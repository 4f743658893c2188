"""`serl export`: any weights that serl reads as one model folder that transformers and vLLM open."""

import argparse
import sys
from pathlib import Path

from serl.commands.options import print_json
from serl.errors import InputError
from serl.io import check_writable


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "export", help="write a checkpoint as a plain model folder, its adapter merged",
        description="Write the weights of a checkpoint, without what a run needs to go on, as a folder of a whole "
                    "model with its tokenizer and chat template, and its reward selector if it has one. An adapter is "
                    "added to the weights of its model. Every tool that reads Hugging Face folders opens it, such as "
                    "transformers and vLLM.")
    parser.add_argument("--checkpoint", metavar="MODEL", required=True,
                        help="as model.path: a checkpoint, also of an adapter, embedded, package:NAME or a folder")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="folder to write; it must not exist")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32",
                        help="precision of the weights (default: %(default)s, which loses nothing)")
    parser.add_argument("--json", action="store_true", help="print what was written as JSON on stdout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """InputError for weights that cannot be read and for a folder that exists."""
    if args.out.exists():
        raise InputError(f"{args.out}: it exists; choose another --out")
    check_writable(args.out)
    import torch

    from serl import lora, model
    from serl.io import read_text
    from serl.select.reward import FILE
    from serl.train.checkpoint import replace_model

    policy, tokenizer = model.load(args.checkpoint, "float32")
    selector = Path(args.checkpoint) / FILE
    kept = {FILE: read_text(selector)} if selector.is_file() else {}
    replace_model(args.out, policy.to(getattr(torch, args.dtype)), tokenizer, kept)
    parameters, merged = policy.num_parameters(), lora.is_adapter(args.checkpoint)
    if args.json:
        print_json({"model": str(args.out), "dtype": args.dtype, "parameters": parameters, "merged": merged})
    print(f"model: {args.out}, {parameters / 1e6:.1f} million parameters in {args.dtype}"
          + (", the adapter added to its weights" if merged else ""), file=sys.stderr)
    return 0
