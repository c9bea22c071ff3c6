// SPDX-License-Identifier: Apache-2.0
#include "cli/page.hpp"

#include <system_error>

// Where the installed documentation is, seen from the folder of the programs.
#ifndef MSSTREAM_DOC_FROM_BIN
#define MSSTREAM_DOC_FROM_BIN "../share/doc/msstream"
#endif

namespace msstream::cli {
namespace fs = std::filesystem;

std::string page_path(std::string_view page) {
  std::error_code error;
  return page_path(page, fs::read_symlink("/proc/self/exe", error).parent_path());
}

std::string page_path(std::string_view page, fs::path const& programs) {
  auto const installed = (programs / MSSTREAM_DOC_FROM_BIN).lexically_normal();
  for (auto const& folder : {installed,
                             installed.parent_path() / "libmsstream-dev",
                             installed.parent_path() / "libmsstream-cuda-dev"}) {
    std::error_code error;
    if (auto path = folder / page; fs::exists(path, error)) {
      return path.string();
    }
  }
  return std::string(page);
}

}  // namespace msstream::cli
