#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of a release archive, in SPDX 2.3 as JSON.

It lists each file of the archive with its checksums, and the libraries that msstream uses, none of which is in the
archive. Equal archives give equal bytes.
"""
import argparse
import hashlib
import json
import re
import sys
import tarfile
import uuid
from pathlib import Path, PurePosixPath

# Name, licence, relationship to msstream, version, package URL, and for what msstream needs it. The version is the oldest
# one that a build accepts, or else the one that it is tested with, such as Debian 12's. A CUDA toolkit has CCCL.
LIBRARIES = [
    ("fmt", "MIT", "DEPENDENCY_OF", "9", "pkg:github/fmtlib/fmt", "messages"),
    ("Eigen", "MPL-2.0", "BUILD_DEPENDENCY_OF", "3.4", "pkg:generic/eigen", "matrix products on the CPU"),
    ("nlohmann-json", "MIT", "BUILD_DEPENDENCY_OF", "3.9", "pkg:github/nlohmann/json", "step traces"),
    ("RapidJSON", "MIT", "BUILD_DEPENDENCY_OF", "1.1.0", "pkg:github/tencent/rapidjson", "recordings in JSON"),
    ("zlib", "Zlib", "OPTIONAL_DEPENDENCY_OF", "1.2.13", "pkg:github/madler/zlib", "compressed recordings"),
    ("SQLite", "blessing", "OPTIONAL_DEPENDENCY_OF", "3.40.1", "pkg:generic/sqlite",
     "exports of Nsight Systems, in msstream-overlap"),
    ("CLI11", "BSD-3-Clause", "OPTIONAL_DEPENDENCY_OF", "2.1", "pkg:github/cliutils/cli11", "options of the programs"),
    ("Arrow", "Apache-2.0", "OPTIONAL_DEPENDENCY_OF", "26.0", "pkg:github/apache/arrow", "Parquet files"),
    ("CUDA-Toolkit", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "12.4", "pkg:generic/cuda-toolkit",
     "the CUDA runtime, cuBLASLt, CUPTI and NVTX"),
    ("CCCL", "Apache-2.0 WITH LLVM-exception AND Apache-2.0 AND BSD-3-Clause", "OPTIONAL_DEPENDENCY_OF", "2.3",
     "pkg:github/nvidia/cccl", "CUB, Thrust and libcu++ in kernels, and allocators for them"),
    ("NCCL", "BSD-3-Clause", "OPTIONAL_DEPENDENCY_OF", "2.19", "pkg:github/nvidia/nccl", "collectives between GPUs"),
    ("MPI", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "4.1.4", "pkg:github/open-mpi/ompi",
     "processes of mpirun; Open MPI, or another one"),
    ("PyTorch", "BSD-3-Clause", "OPTIONAL_DEPENDENCY_OF", "2.11", "pkg:pypi/torch",
     "programs of the user that share memory and tensors with it"),
    ("libmicrohttpd", "LGPL-2.1-or-later", "OPTIONAL_DEPENDENCY_OF", "0.9.75", "pkg:generic/libmicrohttpd",
     "the option --dashboard of the programs"),
    ("DLPack", "Apache-2.0", "OPTIONAL_DEPENDENCY_OF", "0.6", "pkg:github/dmlc/dlpack",
     "exchange of tensors with other libraries"),
    ("Google-Benchmark", "Apache-2.0", "TEST_DEPENDENCY_OF", "1.6", "pkg:github/google/benchmark", "benchmarks"),
    ("GoogleTest", "BSD-3-Clause", "TEST_DEPENDENCY_OF", "1.12.1", "pkg:github/google/googletest", "tests"),
]
PROJECT_LICENCE = "Apache-2.0"
# The licences of other projects, which accompany packages that have their code, compiled: what the texts of a file are.
NOTICES = {
    "packaging/notices/CLI11.txt": ["BSD-3-Clause"],
    "packaging/notices/CUDA.txt": ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause"],
    "packaging/notices/Eigen.txt": ["MPL-2.0"],
    "packaging/notices/RapidJSON.txt": ["MIT"],
    "packaging/notices/SQLite.txt": ["blessing"],
    "packaging/notices/fmt.txt": ["MIT"],
    "packaging/notices/nlohmann-json.txt": ["MIT"],
}
# A licence may be an expression, such as `Apache-2.0 WITH LLVM-exception`.
LICENCE_LINE = re.compile(rb"SPDX-License-Identifier: ([A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*)")
SOURCE_ENDINGS = {".cpp", ".cu", ".cuh", ".hpp", ".in", ".js", ".py", ".sh", ".cmake"}


class WrongLicence(Exception):
    """A file whose licence is not the one that the bill would state."""


def licences_of(path, content):
    """Returns the licence of a file, and those that the file itself states. Throws WrongLicence."""
    found = LICENCE_LINE.search(content[:1000])
    stated = found[1].decode() if found else None
    if path in NOTICES:
        return " AND ".join(NOTICES[path]), NOTICES[path]
    if path.startswith("packaging/notices/"):
        raise WrongLicence(f"{path}: has the licence of another project; expected it in NOTICES of write_spdx.py")
    if stated not in (None, PROJECT_LICENCE):
        raise WrongLicence(f"{path}: expected the licence {PROJECT_LICENCE}, found {stated}")
    return PROJECT_LICENCE, [stated or "NOASSERTION"]


def file_entry(number, path, content):
    """Returns the entry of one file of the archive."""
    concluded, stated = licences_of(path, content)
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{path}",
        "fileTypes": ["SOURCE" if PurePosixPath(path).suffix in SOURCE_ENDINGS else "OTHER"],
        "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                      {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
        "licenseConcluded": concluded,
        "licenseInfoInFiles": stated,
        "copyrightText": "NOASSERTION",
    }


def library_entry(name, licence, version, url, purpose):
    """Returns the entry of a library that is not in the archive."""
    return {
        "SPDXID": f"SPDXRef-Package-{name}",
        "name": name,
        "versionInfo": f"{version} or newer",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
        "comment": f"Not in the archive. Used for: {purpose}",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}],
    }


def bill(archive, version, created):
    """Returns the bill of materials of an archive as a dictionary."""
    content = archive.read_bytes()
    checksum = hashlib.sha256(content).hexdigest()
    with tarfile.open(archive) as tar:
        files = [(member.name.partition("/")[2], tar.extractfile(member).read())
                 for member in tar.getmembers() if member.isfile()]
    files = [file_entry(number, path, text) for number, (path, text) in enumerate(sorted(files))]
    # SPDX 2.3, section 7.9: the checksum of the sorted checksums.
    sums = sorted(entry["checksums"][0]["checksumValue"] for entry in files)
    project = {
        "SPDXID": "SPDXRef-Package-msstream",
        "name": "msstream",
        "versionInfo": version,
        "packageFileName": archive.name,
        "supplier": "Organization: msstream",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()},
        "checksums": [{"algorithm": "SHA256", "checksumValue": checksum}],
        "licenseConcluded": PROJECT_LICENCE,
        "licenseDeclared": PROJECT_LICENCE,
        "licenseInfoFromFiles": sorted({licence for entry in files for licence in entry["licenseInfoInFiles"]}),
        "copyrightText": "Copyright 2026 The msstream authors",
        "primaryPackagePurpose": "LIBRARY",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                          "referenceLocator": f"pkg:generic/msstream@{version}?checksum=sha256:{checksum}"}],
    }
    relationships = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                      "relatedSpdxElement": project["SPDXID"]}]
    relationships += [{"spdxElementId": project["SPDXID"], "relationshipType": "CONTAINS",
                       "relatedSpdxElement": entry["SPDXID"]} for entry in files]
    packages = [project]
    for name, licence, relationship, version_of, url, purpose in LIBRARIES:
        packages.append(library_entry(name, licence, version_of, url, purpose))
        relationships.append({"spdxElementId": packages[-1]["SPDXID"], "relationshipType": relationship,
                              "relatedSpdxElement": project["SPDXID"]})
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"msstream-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/msstream-{version}-{uuid.uuid5(uuid.NAMESPACE_OID, checksum)}",
        "creationInfo": {"created": created, "creators": ["Organization: msstream", "Tool: write_spdx.py"]},
        "packages": packages,
        "files": files,
        "relationships": relationships,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="a .tar.gz with one folder")
    parser.add_argument("--version", required=True, help="the version of msstream")
    parser.add_argument("--created", required=True, help="the time of the release, as in 2026-01-31T12:00:00Z")
    parser.add_argument("--output", type=Path, required=True, help="the JSON file to write")
    arguments = parser.parse_args()
    try:
        text = json.dumps(bill(arguments.archive, arguments.version, arguments.created), indent=1, sort_keys=True)
    except WrongLicence as error:
        sys.exit(f"write_spdx.py: {error}")
    arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
