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

# Name, licence, relationship to msstream, and for what msstream needs it.
LIBRARIES = [
    ("fmt", "MIT", "DEPENDENCY_OF", "messages; 9 or newer"),
    ("Eigen", "MPL-2.0", "BUILD_DEPENDENCY_OF", "matrix products on the CPU; 3.4 or newer"),
    ("nlohmann-json", "MIT", "BUILD_DEPENDENCY_OF", "step traces; 3.9 or newer"),
    ("RapidJSON", "MIT", "BUILD_DEPENDENCY_OF", "recordings in JSON"),
    ("zlib", "Zlib", "OPTIONAL_DEPENDENCY_OF", "compressed recordings"),
    ("SQLite", "blessing", "OPTIONAL_DEPENDENCY_OF", "exports of Nsight Systems, in msstream-overlap"),
    ("CLI11", "BSD-3-Clause", "OPTIONAL_DEPENDENCY_OF", "options of the programs; 2.1 or newer"),
    ("Arrow", "Apache-2.0", "OPTIONAL_DEPENDENCY_OF", "Parquet files"),
    ("CUDA-Toolkit", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "the CUDA runtime, cuBLASLt, CUPTI and NVTX; 12.4 or newer"),
    ("NCCL", "BSD-3-Clause", "OPTIONAL_DEPENDENCY_OF", "collectives between GPUs; 2"),
    ("MPI", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "processes of mpirun"),
    ("libmicrohttpd", "LGPL-2.1-or-later", "OPTIONAL_DEPENDENCY_OF", "the option --dashboard of the programs"),
    ("DLPack", "Apache-2.0", "OPTIONAL_DEPENDENCY_OF", "exchange of tensors with other libraries"),
    ("Google-Benchmark", "Apache-2.0", "TEST_DEPENDENCY_OF", "benchmarks; 1.6 or newer"),
    ("GoogleTest", "BSD-3-Clause", "TEST_DEPENDENCY_OF", "tests"),
]
LICENCE_LINE = re.compile(rb"SPDX-License-Identifier: ([A-Za-z0-9.+-]+)")
PROJECT_LICENCE = "Apache-2.0"
SOURCE_ENDINGS = {".cpp", ".cu", ".cuh", ".hpp", ".in", ".js", ".py", ".sh", ".cmake"}


def file_entry(number, path, content):
    """Returns the entry of one file of the archive."""
    found = LICENCE_LINE.search(content[:1000])
    return {
        "SPDXID": f"SPDXRef-File-{number}",
        "fileName": f"./{path}",
        "fileTypes": ["SOURCE" if PurePosixPath(path).suffix in SOURCE_ENDINGS else "OTHER"],
        "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()},
                      {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}],
        "licenseConcluded": PROJECT_LICENCE,
        "licenseInfoInFiles": [found[1].decode() if found else "NOASSERTION"],
        "copyrightText": "NOASSERTION",
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
        "licenseInfoFromFiles": sorted({entry["licenseInfoInFiles"][0] for entry in files}),
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
    for name, licence, relationship, purpose in LIBRARIES:
        packages.append({
            "SPDXID": f"SPDXRef-Package-{name}",
            "name": name,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": licence,
            "licenseDeclared": licence,
            "copyrightText": "NOASSERTION",
            "comment": f"Not in the archive. Used for: {purpose}",
        })
        relationships.append({"spdxElementId": f"SPDXRef-Package-{name}", "relationshipType": relationship,
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
    text = json.dumps(bill(arguments.archive, arguments.version, arguments.created), indent=1, sort_keys=True)
    arguments.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
