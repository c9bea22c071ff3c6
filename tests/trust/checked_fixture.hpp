// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/msstream.hpp>
#include <msstream/runtime/checked.hpp>
#include <msstream/runtime/sim.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <utility>

namespace msstream::testing {

/// Work that does nothing. Checkers examine the memory that an operation declares, so the tests
/// need no real accesses.
inline constexpr auto kNoWork = [](auto) {};

template <class Inner>
[[nodiscard]] Device<Checked<Inner>> checked_device(CheckerOptions check,
                                                    typename Inner::Options runtime = {},
                                                    AllocatorOptions const& memory = {}) {
  check.report_path = {};
  return Device<Checked<Inner>>(
      {.runtime = {.runtime = std::move(runtime), .check = std::move(check)}, .memory = memory});
}

/// Returns the tensor's memory as RawMemory, whose uses the dependency tracker does not order.
template <class T, Runtime R>
[[nodiscard]] detail::RawMemory<R> raw(Device<R> const& device, Tensor<T, R> const& tensor) {
  return raw_memory(device, tensor.data(), static_cast<std::size_t>(tensor.count()));
}

/// Returns the checker's only finding. Expects that there is exactly one, of the given kind.
inline CheckReport only_report(Checker const& checker, CheckKind kind) {
  auto const reports = checker.reports();
  EXPECT_EQ(reports.size(), 1U) << checker.json();
  if (reports.empty()) {
    return {CheckKind::leak, "nothing was found", {}, {}, ""};
  }
  EXPECT_EQ(name_of(reports.front().kind), name_of(kind)) << reports.front().text();
  return reports.front();
}

/// Expects the access to be that of `operation`, issued at line `issued_at_line` of the test file.
inline void expect_access(std::optional<CheckReport::Access> const& access,
                          std::string const& operation,
                          std::string const& lane,
                          AccessMode mode,
                          unsigned issued_at_line) {
  ASSERT_TRUE(access.has_value());
  EXPECT_EQ(access->operation, operation);
  EXPECT_EQ(access->lane, lane);
  EXPECT_EQ(access->mode, mode);
  EXPECT_EQ(access->issued_at.line(), issued_at_line) << access->text();
}
inline void expect_range(std::optional<CheckReport::Access> const& access,
                         void const* begin,
                         std::size_t bytes) {
  ASSERT_TRUE(access.has_value());
  EXPECT_EQ(access->begin, reinterpret_cast<std::uintptr_t>(begin));
  EXPECT_EQ(access->bytes, bytes);
}

/// A fixture with a device whose checker counts findings, and a pool of two groups. Work of the two
/// groups is unordered, unless a test orders it.
template <class Inner>
class CheckedProgram : public ::testing::Test {
 protected:
  using R = Checked<Inner>;
  static constexpr std::int64_t kCount = 64;
  static constexpr std::size_t kBytes = kCount * sizeof(float);

  [[nodiscard]] Checker& checker() const { return *checker_; }
  [[nodiscard]] R& runtime() const { return device_->runtime(); }
  [[nodiscard]] Device<R> const& device() const { return *device_; }
  [[nodiscard]] StreamGroup<R> const& group(int index) { return (*pool_)[index]; }

  /// Returns a tensor that was written by an operation that the host has seen complete.
  [[nodiscard]] Tensor<float, R> written_tensor(std::int64_t count = kCount) {
    auto tensor = zeros<float, R>(device(), {count});
    device().default_group().compute().synchronize();
    return tensor;
  }
  void order(int earlier, int later) {
    group(later).compute().wait(group(earlier).compute().record());
  }
  void synchronize() {
    for (int i = 0; i < 2; ++i) {
      group(i).compute().synchronize();
    }
    device().default_group().compute().synchronize();
  }
  /// Returns the reason for which tests with real data races cannot run, such as a sanitizer that
  /// would report them; empty if they can.
  [[nodiscard]] static std::string why_it_may_not_race() {
#if defined(__SANITIZE_THREAD__)
    if (Inner::name == Host::name) {
      return "ThreadSanitizer sees the race, too";
    }
#endif
    return {};
  }
  CheckReport only(CheckKind kind) const {
    return only_report(*checker_, kind);
  }
  void expect_silence() const {
    EXPECT_EQ(checker_->count(), 0U) << checker_->json();
  }
  /// Destroys all objects that the fixture made, so that the checker reports the remaining ones as
  /// leaks.
  void end_program() {
    pool_.reset();
    device_.reset();
    checker_->report_leaks();
  }

  std::optional<Device<R>> device_ = checked_device<Inner>({.mode = CheckMode::count});
  std::optional<StreamPool<R>> pool_{
      std::in_place,
      *device_,
      StreamPoolOptions{.groups = 2, .launch_threads = LaunchThreads::none}};
  std::shared_ptr<Checker> checker_ = device_->runtime().checker();
};

using CheckedRuntimes = ::testing::Types<Host, Sim>;
struct CheckedRuntimeNames {
  template <class Inner>
  static std::string GetName(int) {
    return std::string(Inner::name);
  }
};

}  // namespace msstream::testing
