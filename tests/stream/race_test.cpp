// SPDX-License-Identifier: Apache-2.0
// Tests that races show when waits are ignored, so that the order in all other tests is due to the
// dependency tracker and not to luck, and that the order of every record holds when many threads
// issue at once.
#include "stream/stream_fixture.hpp"

#include <msstream/stream/stream_pool.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

/// A host runtime that ignores all waits between streams.
class Unordered : public Host {
 public:
  using Host::Host;
  static constexpr std::string_view name = "host without waits";
  void wait(native_stream, native_event) {}
};
static_assert(Runtime<Unordered>);

template <class R>
class Race : public StreamTest<R> {
 protected:
  /// Returns the value that a reader on another group sees. If waits are ignored, the write is held
  /// until the reader is complete.
  int seen_by_reader() {
    auto const x = this->make_cell();
    detail::StreamGroup writer(this->context, 0);
    detail::StreamGroup reader(this->context, 1);
    Gate gate;
    gate.block(this->runtime(), this->native(writer.compute()));
    this->write(writer, *x, 1);
    auto const position = this->read(reader, *x);
    if (!waits_are_kept) {
      this->context->tracker->synchronize(position);
    } else {
      EXPECT_FALSE(this->context->tracker->is_complete(position));
    }
    gate.open();
    reader.synchronize();
    return x->cell.seen();
  }
  static constexpr bool waits_are_kept = !std::is_same_v<R, Unordered>;
};
using RaceRuntimes = ::testing::Types<Host, Unordered>;
TYPED_TEST_SUITE(Race, RaceRuntimes);

TYPED_TEST(Race, is_seen_exactly_when_waits_are_ignored) {
  EXPECT_EQ(this->seen_by_reader(), this->waits_are_kept ? 1 : 0);
}

/// Memory with updates that do not commute, and a list of the updates in the order in which they
/// ran.
struct Chain {
  detail::AccessRecord record;
  std::uint64_t value = 1;
  std::vector<std::size_t> updates;
};

/// The issuing thread and the position of one operation.
struct Operation {
  std::size_t thread;
  order::Position position;
};

class Stress : public StreamTest<Host> {
 protected:
  static constexpr std::size_t kThreads = 4;
  static constexpr std::size_t kOperations = 400;  ///< per thread
  static constexpr int kGroups = 3;

  std::array<Chain, 5> chains;
  std::vector<Operation> operations = std::vector<Operation>(kThreads * kOperations);

  /// Issues operation `i` of thread `t`, which updates two chains and reads a third one.
  void issue(detail::StreamGroup& group, std::size_t t, std::size_t i) {
    std::size_t const id = t * kOperations + i;
    auto& first = chains[(id * 7 + t) % chains.size()];
    auto& second = chains[(id * 3 + i) % chains.size()];
    auto& read = chains[(id * 5 + 2) % chains.size()];
    detail::AccessSet accesses;
    accesses.add(first.record, AccessMode::write);
    accesses.add(read.record, AccessMode::read);
    accesses.add(second.record, AccessMode::write);
    operations[id] = {
        t, submit(group, "update", accesses, [&first, &second, &read, id](HostStream stream) {
          stream.run([&first, &second, &read, id] {
            auto const before = read.updates.size();
            update(first, id);
            if (&second != &first) {
              update(second, id);
            }
            if (&read != &first && &read != &second) {
              EXPECT_EQ(read.updates.size(), before);
            }
          });
        })};
  }

  static void update(Chain& chain, std::size_t id) {
    chain.value = chain.value * 3 + id;
    chain.updates.push_back(id);
  }

  /// Expects that the value of every chain (memory that operations update) results from its updates
  /// one after the other, in an order that agrees with each stream and each issuing thread.
  void expect_serial() {
    std::size_t updates = 0;
    for (auto const& chain : chains) {
      std::uint64_t value = 1;
      std::map<order::StreamIndex, std::uint64_t> newest;
      std::map<std::size_t, std::size_t> newest_of_thread;
      for (auto const id : chain.updates) {
        value = value * 3 + id;
        auto const& [thread, position] = operations[id];
        ASSERT_GT(position.number, newest[position.stream]);
        newest[position.stream] = position.number;
        auto& last = newest_of_thread[thread];
        ASSERT_GT(id + 1, last) << "a thread's operations changed places";
        last = id + 1;
      }
      EXPECT_EQ(chain.value, value);
      updates += chain.updates.size();
    }
    EXPECT_GT(updates, operations.size());
    EXPECT_EQ(counts().needed, counts().issued + counts().elided);
  }
};

TEST_F(Stress, threads_on_shared_and_own_streams_keep_every_order) {
  for (auto const launch : {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
    context = make_context();
    for (auto& chain : chains) {
      chain.value = 1;
      chain.updates.clear();
      chain.record.log = {};
    }
    StreamPool<Host> pool(device(), {.groups = kGroups, .launch_threads = launch});
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        detail::StreamGroup own(context, 100);
        for (std::size_t i = 0; i < kOperations; ++i) {
          issue(i % 3 == 0 ? own : pool[static_cast<int>((t + i) % kGroups)].engine(), t, i);
          if (i % 50 == 0) {
            (void)context->tracker->outstanding(own.compute().slot());
            own.compute().record().synchronize();
          }
        }
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    pool.synchronize();
    expect_serial();
  }
}

}  // namespace
}  // namespace msstream::testing
