// SPDX-License-Identifier: Apache-2.0
#include "runtime/tried.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/runtime/paged.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

/// A fixture that reserves addresses for eight pages of memory, some of which a test maps.
template <class R>
class Pages : public ::testing::Test {
 protected:
  static constexpr std::size_t kPages = 8;

  void SetUp() override {
    if (auto const why = why_unavailable<R>(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    runtime.emplace();
    page_bytes = runtime->page_bytes();
    if (page_bytes == 0) {
      GTEST_SKIP() << "no pages on this machine";
    }
    addresses = static_cast<std::byte*>(runtime->reserve_addresses(kPages * page_bytes));
    stream = runtime->create_stream(StreamPriority::normal);
  }
  void TearDown() override {
    if (addresses != nullptr) {
      runtime->release_addresses(addresses, kPages * page_bytes);
      runtime->destroy_stream(*stream);
    }
  }

  [[nodiscard]] std::byte* page(std::size_t number) const {
    return addresses + number * page_bytes;
  }
  /// Returns whether the `bytes` bytes at `at` can be written and read back.
  [[nodiscard]] bool holds_data(std::byte* at, std::size_t bytes) {
    auto* const seen = static_cast<std::uint8_t*>(runtime->allocate_pinned(bytes));
    ++value;
    runtime->fill(at, value, bytes, *stream);
    runtime->copy(seen, at, bytes, CopyKind::d2h, *stream);
    runtime->synchronize_stream(*stream);
    bool const same =
        std::all_of(seen, seen + bytes, [this](std::uint8_t byte) { return byte == value; });
    runtime->free_pinned(seen, bytes);
    return same;
  }

  std::optional<R> runtime;
  std::size_t page_bytes = 0;
  std::byte* addresses = nullptr;
  std::optional<typename R::native_stream> stream;
  std::uint8_t value = 0;
};
TYPED_TEST_SUITE(Pages, Runtimes, RuntimeNames);

TYPED_TEST(Pages, are_memory_where_they_are_mapped) {
  this->runtime->map_pages(this->page(1), 3 * this->page_bytes);
  EXPECT_TRUE(this->holds_data(this->page(1), 3 * this->page_bytes));
  this->runtime->unmap_pages(this->page(1), 3 * this->page_bytes);
}

TYPED_TEST(Pages, mapped_apart_are_one_memory) {
  this->runtime->map_pages(this->page(0), this->page_bytes);
  this->runtime->map_pages(this->page(1), 2 * this->page_bytes);
  EXPECT_TRUE(this->holds_data(this->page(0), 3 * this->page_bytes));
  this->runtime->unmap_pages(this->page(0), 2 * this->page_bytes);
  EXPECT_TRUE(this->holds_data(this->page(2), this->page_bytes));
  this->runtime->unmap_pages(this->page(2), this->page_bytes);
}

TYPED_TEST(Pages, move_to_other_addresses_and_back) {
  this->runtime->map_pages(this->page(0), 4 * this->page_bytes);
  this->runtime->move_pages(this->page(5), this->page(1), 2 * this->page_bytes);
  this->runtime->leave_pages(this->page(1), 2 * this->page_bytes);
  EXPECT_TRUE(this->holds_data(this->page(5), 2 * this->page_bytes));
  EXPECT_TRUE(this->holds_data(this->page(0), this->page_bytes));
  EXPECT_TRUE(this->holds_data(this->page(3), this->page_bytes));
  this->runtime->move_pages(this->page(1), this->page(6), this->page_bytes);
  this->runtime->leave_pages(this->page(6), this->page_bytes);
  EXPECT_TRUE(this->holds_data(this->page(0), 2 * this->page_bytes));
  this->runtime->unmap_pages(this->page(0), 2 * this->page_bytes);
  this->runtime->unmap_pages(this->page(3), this->page_bytes);
  this->runtime->unmap_pages(this->page(5), this->page_bytes);
}

TYPED_TEST(Pages, count_as_memory_and_come_back_all) {
  if (TypeParam::name == "cuda") {
    GTEST_SKIP() << "others may use the same GPU; see what test_fake_cuda counts";
  }
  auto const before = this->runtime->memory_info().free_bytes;
  for (int i = 0; i < 20; ++i) {
    this->runtime->map_pages(this->page(0), 4 * this->page_bytes);
    this->runtime->move_pages(this->page(4), this->page(0), 2 * this->page_bytes);
    this->runtime->leave_pages(this->page(0), 2 * this->page_bytes);
    this->runtime->unmap_pages(this->page(2), 4 * this->page_bytes);
  }
  EXPECT_EQ(this->runtime->memory_info().free_bytes, before);
}

TEST(PagesOfTheHost, that_do_not_fit_are_refused_and_nothing_is_taken) {
  Host host({.memory_bytes = std::size_t{5} << 20U});
  auto const page = host.page_bytes();
  auto* const addresses = static_cast<std::byte*>(host.reserve_addresses(8 * page));
  EXPECT_THROW(host.map_pages(addresses, 3 * page), OutOfMemory);
  EXPECT_EQ(host.memory_info().free_bytes, std::size_t{5} << 20U);
  host.map_pages(addresses, 2 * page);
  EXPECT_THROW(static_cast<void>(host.allocate_device(page)), OutOfMemory);
  host.unmap_pages(addresses, 2 * page);
  host.release_addresses(addresses, 8 * page);
}

TEST(PagesOfAFaultyRuntime, fail_when_they_are_told_to) {
  auto const plan = std::make_shared<FaultPlan>();
  Faulty<Host> runtime({.plan = plan});
  auto const page = runtime.page_bytes();
  plan->fail(RuntimeCall::reserve_addresses, 1, Fault::out_of_memory);
  EXPECT_THROW(static_cast<void>(runtime.reserve_addresses(4 * page)), std::exception);
  auto* const addresses = static_cast<std::byte*>(runtime.reserve_addresses(4 * page));
  plan->fail(RuntimeCall::map_pages, 1, Fault::out_of_memory);
  EXPECT_THROW(runtime.map_pages(addresses, page), OutOfMemory);
  runtime.map_pages(addresses, page);
  plan->fail(RuntimeCall::move_pages, 1, Fault::launch_failure);
  EXPECT_THROW(runtime.move_pages(addresses + page, addresses, page), CudaError);
  runtime.unmap_pages(addresses, page);
  runtime.release_addresses(addresses, 4 * page);
}

}  // namespace
}  // namespace msstream::testing
