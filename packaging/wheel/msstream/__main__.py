# SPDX-License-Identifier: Apache-2.0
"""Prints where the C++ library is installed, for build systems: python -m msstream --cmake-dir."""

import argparse

import msstream


def main():
    parser = argparse.ArgumentParser(prog="python -m msstream", description=__doc__)
    answers = parser.add_mutually_exclusive_group(required=True)
    for option, answer in {
        "--cmake-dir": msstream.cmake_dir,
        "--doc-dir": msstream.doc_dir,
        "--include-dir": msstream.include_dir,
        "--pkgconfig-dir": msstream.pkgconfig_dir,
        "--prefix": msstream.prefix,
        "--variant": msstream.variant,
    }.items():
        answers.add_argument(option, dest="answer", action="store_const", const=answer, help=answer.__doc__)
    answers.add_argument("--version", dest="answer", action="store_const", const=lambda: msstream.__version__,
                         help="Returns the version of the library.")
    print(parser.parse_args().answer())


if __name__ == "__main__":
    main()
