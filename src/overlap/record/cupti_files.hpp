// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap::record {

/// The names of CUPTI's library, in the order in which they are tried.
inline constexpr char const* kCuptiNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};

/// Returns the files to try for CUPTI, in order, under a driver that supports a major version of
/// CUDA; 0 if that is unknown. A name without a folder is looked for by the loader.
[[nodiscard]] inline std::vector<std::string> cupti_files(int major_of_driver) {
  std::vector<std::string> files;
  for (std::string_view const name : kCuptiNames) {
    // A CUPTI of a newer CUDA than the driver's does not work.
    if (major_of_driver != 0 && major_of_driver < 13 && name.ends_with(".13")) {
      continue;
    }
    for (std::string_view const folder : {"",
                                          "/usr/local/cuda/extras/CUPTI/lib64/",
                                          "/usr/local/cuda/lib64/",
                                          "/usr/local/cuda/lib/",
                                          "/opt/cuda/extras/CUPTI/lib64/",
                                          "/usr/lib/x86_64-linux-gnu/",
                                          "/usr/lib/aarch64-linux-gnu/"}) {
      files.push_back(std::string(folder).append(name));
    }
  }
  return files;
}

}  // namespace msstream::overlap::record
