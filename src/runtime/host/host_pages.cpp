// SPDX-License-Identifier: Apache-2.0
// Pages of memory in the host runtime. Reserved addresses without memory are mapped without access
// rights.
#include <msstream/base/error.hpp>
#include <msstream/runtime/host.hpp>

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace msstream {

namespace {

// The page size of a GPU, so that tests cover the address arithmetic for GPUs.
constexpr std::size_t kPageBytes = std::size_t{2} << 20U;

[[noreturn]] void refuse(char const* call, std::size_t bytes) {
  auto const why = std::error_code(errno, std::generic_category()).message();
  throw OutOfMemory(bytes, fmt::format("host runtime: {} of {} bytes: {}", call, bytes, why));
}

void make_accessible(void* at, std::size_t bytes, char const* call) {
  if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
    refuse(call, bytes);
  }
}

/// Maps addresses without access rights. Releases memory that was mapped at the same addresses
/// before.
void* map_nothing(void* at, std::size_t bytes) {
  int const fixed = at != nullptr ? MAP_FIXED : 0;
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
}

}  // namespace

std::size_t Host::page_bytes() const noexcept {
  return kPageBytes;
}

// Throws OutOfMemory for more than half of the process's address space limit (ulimit -v), so that
// other allocations can use the rest.
void* Host::reserve_addresses(std::size_t bytes) {
  rlimit most{};
  if (getrlimit(RLIMIT_AS, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
      bytes > most.rlim_cur / 2) {
    errno = ENOMEM;
    refuse("reserve_addresses", bytes);
  }
  void* const addresses = map_nothing(nullptr, bytes);
  if (addresses == MAP_FAILED) {
    refuse("reserve_addresses", bytes);
  }
  return addresses;
}

void Host::release_addresses(void* addresses, std::size_t bytes) noexcept {
  munmap(addresses, bytes);
}

void Host::map_pages(void* at, std::size_t bytes) {
  take_bytes(bytes);
  try {
    make_accessible(at, bytes, "map_pages");
  } catch (...) {
    allocated_bytes_.fetch_sub(bytes);
    throw;
  }
}

// Makes new memory accessible instead of moving the old one. Bytes written at the old addresses are
// not visible at the new ones, which is correct because the contents of moved memory are undefined.
void Host::move_pages(void* to, void*, std::size_t bytes) {
  make_accessible(to, bytes, "move_pages");
}

void Host::leave_pages(void* from, std::size_t bytes) noexcept {
  map_nothing(from, bytes);
}

void Host::unmap_pages(void* at, std::size_t bytes) noexcept {
  map_nothing(at, bytes);
  allocated_bytes_.fetch_sub(bytes);
}

}  // namespace msstream
