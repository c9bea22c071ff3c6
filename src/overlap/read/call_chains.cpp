// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/call_chains.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>

namespace msstream::overlap {
namespace {

// The begins of the files' names.
constexpr std::string_view kCudaFiles[] = {"libcuda.so",
                                           "libcudart",
                                           "libcupti",
                                           "libnv",
                                           "libToolsInjection",
                                           "libc.so",
                                           "libc-",
                                           "libpthread",
                                           "ld-linux",
                                           "["};
constexpr std::string_view kLibraryFiles[] = {"libcublas",
                                              "libcudnn",
                                              "libcufft",
                                              "libcurand",
                                              "libcusolver",
                                              "libcusparse",
                                              "libnccl",
                                              "libstdc++",
                                              "libgomp",
                                              "libtorch",
                                              "libc10",
                                              "libtriton",
                                              "libpython",
                                              "python3",
                                              "libmsstream"};
// Parts of the paths of installed libraries.
constexpr std::string_view kLibraryFolders[] = {
    "/site-packages/", "/dist-packages/", "/usr/lib/", "/usr/local/lib/"};
// The begins of symbols, which are in the program's own file if it links the archive.
constexpr std::string_view kCudaSymbols[] = {"__cuda", "__device_stub__", "libcudart_static"};
constexpr std::string_view kLibrarySymbols[] = {
    "std::", "__gnu_cxx::", "fmt::", "thrust::", "cub::", "_PyEval", "_PyObject", "Py_"};

std::string_view file_of(std::string_view path) {
  auto const slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// Whether a symbol is one of the CUDA runtime, such as cudaMalloc.
bool is_of_runtime(std::string_view symbol) {
  return symbol.starts_with("cuda") && symbol.size() > 4 && symbol[4] >= 'A' && symbol[4] <= 'Z';
}

/// Whether a symbol is a function of msstream, maybe behind the type that it returns, and not one
/// with arguments of msstream.
bool is_of_msstream(std::string_view symbol) {
  return symbol.substr(0, symbol.find_first_of("<(")).find("msstream::") != std::string_view::npos;
}

template <class Begins>
bool begins_with_any(std::string_view text, Begins const& begins) {
  return std::ranges::any_of(begins,
                             [&](std::string_view begin) { return text.starts_with(begin); });
}

}  // namespace

CodeOwner owner_of(std::string_view symbol, std::string_view module) {
  auto const file = file_of(module);
  if (begins_with_any(file, kCudaFiles) || begins_with_any(symbol, kCudaSymbols) ||
      is_of_runtime(symbol)) {
    return CodeOwner::cuda;
  }
  bool const is_installed = std::ranges::any_of(kLibraryFolders, [&](std::string_view folder) {
    return module.find(folder) != std::string_view::npos;
  });
  bool const is_library = is_installed || begins_with_any(file, kLibraryFiles) ||
                          begins_with_any(symbol, kLibrarySymbols) || is_of_msstream(symbol);
  return is_library ? CodeOwner::library : CodeOwner::program;
}

void CallChains::add(std::int64_t chain,
                     std::int64_t depth,
                     std::string_view symbol,
                     std::string_view module) {
  Function const function{owner_of(symbol, module), depth, symbol, module};
  if (symbol.empty() || function.owner == CodeOwner::cuda) {
    return;
  }
  auto const [kept, is_new] = functions_.try_emplace(chain, function);
  auto const order = [](Function const& one) { return std::tuple(one.owner, one.depth); };
  if (!is_new && order(function) < order(kept->second)) {
    kept->second = function;
  }
}

std::string CallChains::function_of(std::int64_t chain) const {
  auto const found = functions_.find(chain);
  if (found == functions_.end()) {
    return {};
  }
  auto const file = file_of(found->second.module);
  return file.empty() ? std::string(found->second.symbol)
                      : fmt::format("{} in {}", found->second.symbol, file);
}

}  // namespace msstream::overlap
