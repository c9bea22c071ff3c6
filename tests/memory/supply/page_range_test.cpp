// SPDX-License-Identifier: Apache-2.0
#include "memory/supply/page_range.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <cstdlib>

namespace msstream::memory {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30U;

/// A host runtime that reserves at most `most` bytes of addresses in one range.
class HostOfFewAddresses : public Host {
 public:
  struct Options {
    std::size_t most;
  };

  explicit HostOfFewAddresses(Options const& options) : most_(options.most) {}

  void* reserve_addresses(std::size_t bytes) {
    if (bytes > most_) {
      throw OutOfMemory(bytes, "no more addresses");
    }
    return Host::reserve_addresses(bytes);
  }

 private:
  std::size_t most_;
};

TEST(PageRangeTest, has_the_addresses_that_are_wanted) {
  auto const host = detail::make_backend<Host>({});
  EXPECT_EQ(PageRange(*host, kGiB, 16 * kGiB).bytes(), 16 * kGiB);
  EXPECT_EQ(PageRange(*host, kGiB, 2 * kGiB).bytes(), 2 * kGiB);
}
TEST(PageRangeTest, has_fewer_where_there_are_not_as_many) {
  auto const host = detail::make_backend<HostOfFewAddresses>({5 * kGiB});
  PageRange const range(*host, kGiB, 16 * kGiB);
  EXPECT_GE(range.bytes(), 2 * kGiB);
  EXPECT_LE(range.bytes(), 5 * kGiB);
  auto* const last = range.begin() + range.bytes() - host->page_bytes();
  host->map_pages(last, host->page_bytes());
  host->unmap_pages(last, host->page_bytes());
}
TEST(PageRangeTest, is_none_where_not_all_memory_could_be_mapped_in_it) {
  auto const host = detail::make_backend<HostOfFewAddresses>({kGiB - 1});
  EXPECT_EQ(PageRange(*host, kGiB, 16 * kGiB).bytes(), 0U);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Limits the address space of the process to 3 GiB, and returns whether page ranges leave half of
/// it to the process.
bool leaves_half_of_the_addresses() {
  rlimit const few{3 * kGiB, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &few) != 0) {
    return false;
  }
  auto const host = detail::make_backend<Host>({});
  bool const has_none = PageRange(*host, 8 * kGiB, 128 * kGiB).bytes() == 0;
  return has_none && PageRange(*host, kGiB, 16 * kGiB).bytes() == kGiB;
}
/// Runs in a child process, because the address limit applies to all threads of a process.
TEST(PageRangeDeathTest, leaves_half_of_the_addresses_that_the_process_may_have) {
  EXPECT_EXIT(std::exit(leaves_half_of_the_addresses() ? 0 : 1), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace msstream::memory
