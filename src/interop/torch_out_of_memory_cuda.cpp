// SPDX-License-Identifier: Apache-2.0
#include "torch_out_of_memory.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <typeinfo>

namespace msstream::detail {

namespace {

/// The first argument of the constructor of c10::Error, PyTorch's error class.
struct SourceLocation {
  char const* function;
  char const* file;
  std::uint32_t line;
};
using ConstructError = void (*)(void* self, SourceLocation where, std::string message);

constexpr char const* kConstructError =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr char const* kTypeOfOutOfMemory = "_ZTIN3c1016OutOfMemoryErrorE";
constexpr std::size_t kRoomForError = 1024;  // bytes; the error needs about 130

/// Returns a symbol of a library that is in the process, or null.
void* symbol(char const* library, char const* name) noexcept {
  void* const loaded = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  return loaded != nullptr ? dlsym(loaded, name) : nullptr;
}

/// Destroys a PyTorch error. Its first base is std::exception, and out-of-memory errors add nothing
/// to c10::Error.
void destroy_error(void* error) noexcept {
  static_cast<std::exception*>(error)->~exception();
}

}  // namespace

void throw_torch_out_of_memory(std::string const& message) {
  // Looks up the symbols by name, because the library is built without headers of PyTorch, and one
  // build serves many of its versions.
  auto const construct = reinterpret_cast<ConstructError>(symbol("libc10.so", kConstructError));
  auto* const type = static_cast<std::type_info*>(symbol("libc10_cuda.so", kTypeOfOutOfMemory));
  if (construct == nullptr || type == nullptr) {
    throw std::runtime_error(message);
  }
  void* const error = abi::__cxa_allocate_exception(kRoomForError);
  try {
    construct(error, {"msstream_torch_malloc", "libmsstream_torch.so", 0}, message);
  } catch (...) {
    abi::__cxa_free_exception(error);
    throw;
  }
  abi::__cxa_throw(error, type, destroy_error);
}

}  // namespace msstream::detail
