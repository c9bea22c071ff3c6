// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::OutOfRange;
using ops::Pooling;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kRowCount = 20;

/// A host copy of bags of ids, of which only the first `existing` bags exist.
struct HostBags {
  Integers ids;
  Integers offsets;
  std::int64_t existing;

  [[nodiscard]] std::int64_t bags() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  /// Calls `visit(bag, id, weight)` for each valid id of the bags that exist.
  void for_each(Pooling pooling, auto visit) const {
    for (std::size_t bag = 0; bag < static_cast<std::size_t>(existing); ++bag) {
      auto const begin = ids.begin() + offsets[bag];
      auto const end = ids.begin() + offsets[bag + 1];
      auto const is_valid = [](std::int64_t id) { return id >= 0 && id < kRowCount; };
      auto const valid = std::count_if(begin, end, is_valid);
      for (auto id = begin; id != end; ++id) {
        if (is_valid(*id)) {
          visit(bag,
                static_cast<std::size_t>(*id),
                pooling == Pooling::mean ? 1.0 / static_cast<double>(valid) : 1.0);
        }
      }
    }
  }
  [[nodiscard]] std::int64_t bad_ids() const {
    auto bad = offsets[static_cast<std::size_t>(existing)];
    for_each(Pooling::sum, [&](auto...) { --bad; });
    return bad;
  }
};

template <class R>
class EmbeddingTest : public OpsTest<R> {
 protected:
  /// Returns random bags, of which all, some or none exist. The bags have a fixed hotness of 1 or
  /// 3, or are jagged with unused elements at the end.
  std::vector<std::pair<HostBags, Bags<R>>> random_bags() {
    std::vector<std::pair<HostBags, Bags<R>>> out;
    for (std::int64_t const hotness : {1, 3, 0}) {
      for (std::int64_t const existing : {17, 9, 0}) {
        HostBags host{{}, {0}, existing};
        for (int bag = 0; bag < 17; ++bag) {
          host.offsets.push_back(host.offsets.back() +
                                 (hotness > 0 ? hotness : this->random.integer(0, 6)));
        }
        auto const capacity = host.offsets.back() + (hotness > 0 ? 0 : 4);
        host.ids = this->random.integers(capacity, -2, kRowCount + 1);
        auto bags = hotness > 1    ? Bags<R>(this->put(host.ids, {17, hotness}))
                    : hotness == 1 ? Bags<R>(this->put(host.ids))
                                   : Bags<R>(this->put(host.ids), this->put(host.offsets));
        if (existing < 17) {
          bags.bag_count = this->scalar(existing);
        }
        out.emplace_back(std::move(host), std::move(bags));
      }
    }
    return out;
  }

  template <class T>
  void expect_pooled(std::int64_t width) {
    std::vector<T> table;
    for (auto const value : this->random.reals(kRowCount * width)) {
      table.push_back(from_float<T>(value));
    }
    auto const rows = this->put(table, {kRowCount, width});
    auto const columns = static_cast<std::size_t>(width);
    for (auto const& [host, bags] : random_bags()) {
      for (auto const pooling : {Pooling::sum, Pooling::mean}) {
        Doubles expected(static_cast<std::size_t>(host.bags()) * columns, 0.0);
        host.for_each(pooling, [&](std::size_t bag, std::size_t id, double weight) {
          for (std::size_t c = 0; c < columns; ++c) {
            expected[bag * columns + c] += weight * to_float(table[id * columns + c]);
          }
        });
        auto const pooled = ops::embedding_lookup(rows, bags, {.pooling = pooling});
        EXPECT_EQ(pooled.shape(), (Shape{host.bags(), width}));
        expect_near(to_host(pooled), expected);
      }
    }
  }
};
TYPED_TEST_SUITE(EmbeddingTest, Runtimes, RuntimeNames);

TYPED_TEST(EmbeddingTest, pools_tables_of_each_precision_like_double) {
  for (std::int64_t const width : {1, 5, 16}) {
    this->template expect_pooled<float>(width);
    this->template expect_pooled<float16>(width);
    this->template expect_pooled<bfloat16>(width);
  }
}

TYPED_TEST(EmbeddingTest, counts_on_the_device_that_are_too_large_do_not_lead_out_of_the_memory) {
  auto const table = this->put(Floats{1, 2, 3, 4}, {4, 1});
  Bags<TypeParam> fixed(this->put(Integers{0, 1}));
  fixed.bag_count = this->scalar(1'000'000);
  EXPECT_THAT(to_host(ops::embedding_lookup(table, fixed)), ElementsAre(1, 2));
  Bags<TypeParam> const jagged(this->put(Integers{0, 1, 2}), this->put(Integers{0, 2, 1'000'000}));
  EXPECT_THAT(to_host(ops::embedding_lookup(table, jagged)), ElementsAre(3, 0));
}

TYPED_TEST(EmbeddingTest, counts_bad_ids_that_exist_and_adds_to_the_counter) {
  auto const table = this->random_tensor({kRowCount, 3});
  auto const counter = this->scalar(100);
  std::int64_t expected = 100;
  for (auto const& [host, bags] : this->random_bags()) {
    (void)ops::embedding_lookup(
        table, bags, {.out_of_range = OutOfRange::count, .bad_id_count = counter});
    expected += host.bad_ids();
  }
  EXPECT_GT(expected, 100);
  EXPECT_THAT(to_host(counter), ElementsAre(expected));
}

TYPED_TEST(EmbeddingTest, a_trapped_id_throws_once_at_the_next_wait_and_all_stays_usable) {
  auto const table = this->put(Floats{1, 2, 3}, {3, 1});
  auto const lookup = [&](Integers const& ids) {
    NameScope const name("user");
    return ops::embedding_lookup(
        table, Bags<TypeParam>(this->put(ids)), {.out_of_range = OutOfRange::trap});
  };
  for (std::int64_t const bad : {3, -7}) {
    auto const pooled = lookup({1, bad, 2});
    EXPECT_THAT(message_of<std::out_of_range>([&] { (void)to_host(pooled); }),
                AllOf(HasSubstr("user/embedding_lookup"),
                      HasSubstr(fmt::format("id {} ", bad)),
                      HasSubstr("[0, 3)")));
    EXPECT_THAT(to_host(pooled), ElementsAre(2, 0, 3));  // the bad id is not reported again
    EXPECT_THAT(to_host(lookup({0, 1, 2})), ElementsAre(1, 2, 3));
  }
}

TYPED_TEST(EmbeddingTest, a_trap_names_the_operation_of_any_group_and_launch_thread) {
  for (auto const launch : {LaunchThreads::none, LaunchThreads::per_group}) {
    StreamPool pool(this->device(), {.groups = 3, .launch_threads = launch});
    auto const table = this->any({3, 1});
    std::vector<Tensor<float, TypeParam>> pooled;
    for (int group = 0; group < 3; ++group) {
      StreamScope const branch(pool[group]);
      NameScope const name(fmt::format("field {}", group));
      pooled.push_back(
          ops::embedding_lookup(table,
                                Bags<TypeParam>(this->put(Integers{group == 1 ? 9 : 2})),
                                {.out_of_range = OutOfRange::trap}));
    }
    EXPECT_THAT(message_of<std::out_of_range>([&] { (void)to_host(pooled[1]); }),
                HasSubstr("field 1/embedding_lookup: id 9 outside [0, 3)"));
  }
}

struct PinnedWatcherOptions {
  Gate* gate;
  Journal* journal;
};

/// A runtime that opens the gate when the host starts to wait for an event, and records when pinned
/// memory is freed.
class PinnedWatcher : public Host {
 public:
  using Options = PinnedWatcherOptions;
  explicit PinnedWatcher(Options options) : options_(options) {}

  void synchronize(native_event event) {
    options_.gate->open();
    Host::synchronize(event);
  }
  void free_pinned(void* memory, std::size_t bytes) noexcept {
    options_.journal->add("free");
    Host::free_pinned(memory, bytes);
  }

 private:
  Options options_;
};

TEST(EmbeddingTrapTest, the_trap_outlives_lookups_whose_handles_are_gone) {
  Gate gate;
  Journal journal;
  std::optional<StreamPool<PinnedWatcher>> pool;
  {
    Device<PinnedWatcher> const device({.runtime = {&gate, &journal}});
    pool.emplace(device, StreamPoolOptions{.groups = 1, .merge_streams = true});
    // The queue of stream group 0 is [wait for the test's gate, fill, fill, lookup, note].
    gate.hold((*pool)[0].compute());
    StreamScope const branch((*pool)[0]);
    auto const table = zeros<float>(device, {3, 1});
    Tensor<std::int64_t, PinnedWatcher> const ids(device, {2});
    fill_bytes(ids, kPoisonByte);
    auto const pooled =
        ops::embedding_lookup(table, Bags<PinnedWatcher>(ids), {.out_of_range = OutOfRange::trap});
    issue("note", reads(pooled), journal.entry(device, "looked up"));
  }
  pool.reset();
  EXPECT_THAT(journal.entries(), ElementsAre("looked up", "free"));
}

TYPED_TEST(EmbeddingTest, takes_no_bags_and_no_ids) {
  auto const table = this->random_tensor({3, 2});
  for (auto const& shape : {Shape{0}, Shape{0, 4}, Shape{4, 0}}) {
    Bags<TypeParam> const bags(this->template any<std::int64_t>(shape));
    auto const pooled = ops::embedding_lookup(table, bags, {.pooling = Pooling::mean});
    EXPECT_EQ(pooled.shape(), (Shape{shape[0], 2}));
    EXPECT_THAT(to_host(pooled), ::testing::Each(0.0F));
  }
}

TYPED_TEST(EmbeddingTest, refuses_shapes_and_types_that_do_not_fit) {
  using Ids = Tensor<std::int64_t, TypeParam>;
  auto const ids = [&](Shape const& shape) { return this->template any<std::int64_t>(shape); };
  expect_refused([&] { Bags<TypeParam> const bags(ids({})); }, "bags", "[]");
  expect_refused([&] { Bags<TypeParam> const bags(ids({2, 2, 2})); }, "bags", "[2, 2, 2]");
  auto const jagged = [&](Ids const& i, Ids const& o) {
    expect_refused([&] { Bags<TypeParam> const bags(i, o); }, "bags", i.shape(), o.shape());
  };
  jagged(ids({2, 2}), ids({3}));
  jagged(ids({4}), ids({3, 1}));
  jagged(ids({4}), ids({0}));

  auto const table = this->any({3, 2});
  Bags<TypeParam> const bags(ids({4}));
  auto const lookup =
      [](auto const& rows, auto const& which, ops::LookupOptions<TypeParam> options) {
        return [=] { (void)ops::embedding_lookup(rows, which, options); };
      };
  expect_refused(lookup(this->any({6}), bags, {}), "embedding_lookup", "[6]");
  expect_refused(lookup(ids({3, 2}), bags, {}), "embedding_lookup", "int64");
  expect_refused(lookup(table, bags, {.out_of_range = OutOfRange::count}), "bad_id_count");
  expect_refused(lookup(table, bags, {.bad_id_count = ids({})}), "bad_id_count");
  expect_refused(lookup(table, bags, {.out_of_range = OutOfRange::count, .bad_id_count = ids({2})}),
                 "bad_id_count",
                 "[2]");
  auto many_counts = bags;
  many_counts.bag_count = ids({2});
  expect_refused(lookup(table, many_counts, {}), "bag_count", "[2]");
  expect_refused([&] { (void)ops::deduplicate(many_counts, 3); }, "bag_count", "[2]");

  auto const unique = ops::deduplicate(bags, 3);
  auto const gradient = [&](auto const& which, auto const& grouped, auto const& dy) {
    return [=] { (void)ops::embedding_gradient(which, grouped, 3, Pooling::sum, dy); };
  };
  expect_refused(gradient(bags, unique, this->any({8})), "embedding_gradient", "[8]", "4");
  expect_refused(gradient(bags, unique, this->any({3, 2})), "embedding_gradient", "[3, 2]", "4");
  expect_refused(gradient(bags, ops::deduplicate(Bags<TypeParam>(ids({5})), 3), this->any({4, 2})),
                 "embedding_gradient",
                 "[5]",
                 "[4]");

  using Parts = std::vector<ops::RowGradients<TypeParam>>;
  auto const merge = [&](Parts const& parts) {
    return [=] { (void)ops::merge_row_gradients(parts, kRowCount); };
  };
  ops::RowGradients<TypeParam> const good{ids({2}), ids({}), this->any({2, 3})};
  expect_refused(merge({}), "merge_row_gradients");
  expect_refused(merge({good, {ids({2}), ids({}), this->any({2, 4})}}),
                 "merge_row_gradients",
                 "[2, 3]",
                 "[2, 4]");
  expect_refused(merge({{ids({2}), ids({}), this->any({6})}}), "merge_row_gradients", "[6]");
  expect_refused(
      merge({{ids({3}), ids({}), this->any({2, 3})}}), "merge_row_gradients", "[3]", "[2, 3]");
}

}  // namespace
}  // namespace msstream::testing
