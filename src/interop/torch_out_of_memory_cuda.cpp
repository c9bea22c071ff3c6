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

/// A copy of the layout of c10::SourceLocation: the first argument of the constructor of
/// c10::Error, PyTorch's error class.
struct SourceLocation {
  char const* function;
  char const* file;
  std::uint32_t line;
};
using ConstructError = void (*)(void* self, SourceLocation where, std::string message);

constexpr char const* kConstructError =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr char const* kTypeOfOutOfMemory = "_ZTIN3c1016OutOfMemoryErrorE";
constexpr std::size_t kRoomForError = 1024;  // bytes; the error object needs about 130

/// Returns a symbol of a library that is loaded in the process; null if there is no such library or
/// symbol.
void* symbol(char const* library, char const* name) noexcept {
  void* const loaded = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  return loaded != nullptr ? dlsym(loaded, name) : nullptr;
}

/// Destroys a PyTorch out-of-memory error through its first base, std::exception.
/// c10::OutOfMemoryError adds nothing to c10::Error, as which the object was constructed.
void destroy_error(void* error) noexcept {
  static_cast<std::exception*>(error)->~exception();
}

}  // namespace

void throw_torch_out_of_memory(std::string const& message) {
  // The symbols are looked up by name, because the library is built without PyTorch's headers, and
  // one build serves many PyTorch versions.
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
