// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/bags.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::testing {

inline constexpr std::int64_t kMostPlaces = 6000;
inline constexpr std::int64_t kGroupsOfPlaces = 500;
inline constexpr std::int64_t kColumns = 20;
/// The largest number of bags of each of four tables, which have kGroupsOfPlaces bags together.
inline constexpr std::int64_t kMostBags = kGroupsOfPlaces / 4;

/// The inputs that vary between replays of a captured operation: the number of positions that
/// exist, and their contents.
template <class R>
struct Content {
  explicit Content(Device<R> const& device)
      : count(zeros<std::int64_t>(device, Shape{})),
        bag_count(zeros<std::int64_t>(device, Shape{})),
        ids(zeros<std::int64_t>(device, {kMostPlaces})),
        wide_ids(zeros<std::int64_t>(device, {kMostPlaces})),
        sorted_ids(zeros<std::int64_t>(device, {kMostPlaces})),
        bag_of_id(zeros<std::int64_t>(device, {kMostPlaces})),
        offsets(zeros<std::int64_t>(device, {kGroupsOfPlaces + 1})),
        weights(zeros<float>(device, {kMostPlaces})),
        values(zeros<float>(device, {kMostPlaces, kColumns})),
        table(zeros<float>(device, {kGroupsOfPlaces, kColumns})) {}

  void fill(Device<R> const& device, Random& random, std::int64_t existing) const {
    auto const put = [&](auto const& to, auto const& numbers) {
      copy(to, to_device(device, numbers, to.shape()));
    };
    auto numbers = random.integers(kMostPlaces, -2, kGroupsOfPlaces + 1);
    put(ids, numbers);
    auto wide = numbers;
    for (auto& id : wide) {
      id *= 0x0123'4567'89AB'CDEF / kGroupsOfPlaces;
    }
    put(wide_ids, wide);
    std::sort(numbers.begin(), numbers.begin() + existing);
    put(sorted_ids, numbers);
    std::fill(numbers.begin() + existing, numbers.end(), kGroupsOfPlaces + 1);  // ids of no bag
    put(bag_of_id, numbers);
    auto ends = random.integers(kGroupsOfPlaces + 1, 0, existing);
    std::sort(ends.begin(), ends.end());
    put(offsets, ends);
    put(weights, random.reals(kMostPlaces, 0.25F, 2.0F));
    put(values, random.reals(kMostPlaces * kColumns));
    put(table, random.reals(kGroupsOfPlaces * kColumns));
    put(count, Integers{existing});
    put(bag_count, Integers{(existing * kMostBags + kMostPlaces - 1) / kMostPlaces});
  }
  [[nodiscard]] ops::Bags<R> jagged() const { return ops::Bags<R>(ids, offsets); }

  Tensor<std::int64_t, R> count;
  Tensor<std::int64_t, R> bag_count;
  Tensor<std::int64_t, R> ids;
  Tensor<std::int64_t, R> wide_ids;    ///< ids that need all 64 bits
  Tensor<std::int64_t, R> sorted_ids;  ///< sorted up to the count
  Tensor<std::int64_t, R> bag_of_id;   ///< sorted; beyond the count, ids of no bag
  Tensor<std::int64_t, R> offsets;
  Tensor<float, R> weights;
  Tensor<float, R> values;
  Tensor<float, R> table;
};

/// The result of an operation, and the number of its defined rows if the operation leaves other
/// rows undefined.
template <Runtime R>
struct Result {
  std::variant<Tensor<float, R>, Tensor<std::int64_t, R>, Tensor<std::int32_t, R>> values;
  std::optional<Tensor<std::int64_t, R>> defined_rows;

  template <Element T>
  // NOLINTNEXTLINE(google-explicit-constructor): most results are a tensor alone
  Result(Tensor<T, R> all_values, std::optional<Tensor<std::int64_t, R>> rows = {})
      : values(std::move(all_values)), defined_rows(std::move(rows)) {}

  /// Returns the bytes of the defined rows of the result.
  [[nodiscard]] std::string bytes() const {
    return std::visit(
        [&](auto const& tensor) {
          auto const host = to_host(tensor);
          auto count = static_cast<std::int64_t>(host.size());
          if (defined_rows) {
            auto const rows = to_host(*defined_rows).front();
            EXPECT_LE(rows, tensor.shape()[0]);
            count = count / tensor.shape()[0] * rows;
          }
          std::string bytes(static_cast<std::size_t>(count) * sizeof(host.front()), '\0');
          std::memcpy(bytes.data(), host.data(), bytes.size());
          return bytes;
        },
        values);
  }
};
template <Runtime R>
using Results = std::vector<Result<R>>;

/// The operations to capture: names, and functions that issue the operations.
template <Runtime R>
using Operations =
    std::vector<std::pair<std::string, std::function<Results<R>(Content<R> const&)>>>;

/// A fixture that captures each operation once, replays it for several counts, and compares the
/// results with eager runs.
template <class R>
class CapturedCounts : public OpsTest<R> {
 protected:
  void expect_one_capture_serves_every_count(Operations<R> const& operations) {
    for (auto const& named : operations) {
      SCOPED_TRACE(named.first);
      auto const& operation = named.second;
      Content<R> const in(this->device());
      in.fill(this->device(), this->random, kMostPlaces);
      (void)operation(in);
      Results<R> replayed;
      CapturedStep<R> step(this->device(), [&] { replayed = operation(in); });
      for (std::int64_t const existing :
           {kMostPlaces, std::int64_t{0}, std::int64_t{1}, kMostPlaces / 3, kMostPlaces}) {
        in.fill(this->device(), this->random, existing);
        step.replay();
        auto const eager = operation(in);
        ASSERT_EQ(replayed.size(), eager.size());
        for (std::size_t i = 0; i < eager.size(); ++i) {
          EXPECT_TRUE(replayed[i].bytes() == eager[i].bytes())
              << "result " << i << " of " << existing << " places";
        }
      }
    }
  }

  void expect_the_same_bits_in_twenty_runs(Operations<R> const& operations) {
    for (auto const& named : operations) {
      SCOPED_TRACE(named.first);
      auto const& operation = named.second;
      Content<R> const in(this->device());
      in.fill(this->device(), this->random, kMostPlaces - 7);
      auto const first = operation(in);
      for (int run = 1; run < 20; ++run) {
        auto const again = operation(in);
        for (std::size_t i = 0; i < first.size(); ++i) {
          ASSERT_TRUE(again[i].bytes() == first[i].bytes()) << "run " << run;
        }
      }
    }
  }
};

}  // namespace msstream::testing
