// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/memory/page_range.hpp>
#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <cstddef>

namespace msstream::memory {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30U;

/// A process that may have so many addresses in one range.
class HostOfFewAddresses : public Host {
 public:
  explicit HostOfFewAddresses(std::size_t most) : most_(most) {}

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
  Host host;
  EXPECT_EQ(PageRange(host, kGiB, 16 * kGiB).bytes(), 16 * kGiB);
  EXPECT_EQ(PageRange(host, kGiB, 2 * kGiB).bytes(), 2 * kGiB);
}
TEST(PageRangeTest, has_fewer_where_there_are_not_as_many) {
  HostOfFewAddresses host(5 * kGiB);
  PageRange range(host, kGiB, 16 * kGiB);
  EXPECT_GE(range.bytes(), 2 * kGiB);
  EXPECT_LE(range.bytes(), 5 * kGiB);
  range.map(range.begin() + range.bytes() - host.page_bytes(), host.page_bytes());
  range.unmap(range.begin() + range.bytes() - host.page_bytes(), host.page_bytes());
}
TEST(PageRangeTest, has_at_least_those_of_its_memory) {
  HostOfFewAddresses host(kGiB - 1);
  EXPECT_THROW(PageRange(host, kGiB, 16 * kGiB), OutOfMemory);
}

}  // namespace
}  // namespace msstream::memory
