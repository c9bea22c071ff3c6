// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/temporary_folder.hpp"
#include "faulty/every_call.hpp"
#include "faulty/world.hpp"

#include <msstream/checkpoint/writer.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/tensor/publish.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace msstream::testing {

template <Runtime Inner>
Scenario<Inner> opening(bool merge_streams) {
  return {"opening", [merge_streams](World<Inner>& world) {
            world.open({.groups = 3, .merge_streams = merge_streams});
            static_cast<void>(world.device->default_group());
          }};
}

/// A scenario in which two groups use each other's results, so that every operation waits for the
/// other group.
template <Runtime Inner>
Scenario<Inner> crossing_groups(LaunchThreads threads) {
  return {"crossing groups", [threads](World<Inner>& world) {
            constexpr std::int64_t kCount = 300;
            constexpr int kRounds = 3;
            world.open({.groups = 2, .launch_threads = threads});
            auto x = to_device<float>(*world.device, ascending(kCount), {kCount});
            world.left_behind.push_back(x);
            for (int round = 0; round < kRounds; ++round) {
              for (int group = 0; group < 2; ++group) {
                StreamScope const scope((*world.pool)[group]);
                x = ops::scale(x, 2);
                world.left_behind.push_back(x);
                fill_bytes(world.left_behind.front(), 0);
              }
            }
            auto const results = to_host(x);
            world.pool->synchronize();
            ASSERT_EQ(results.back(), static_cast<float>((kCount - 1) << (2 * kRounds)));
          }};
}

/// A scenario that allocates more memory than the limit permits at once. Memory moves between
/// groups, with waits, and unused memory returns to the runtime once the allocator finds by queries
/// that its work is complete.
template <Runtime Inner>
Scenario<Inner> memory_under_a_limit() {
  return {"memory under a limit", [](World<Inner>& world) {
            using R = typename World<Inner>::R;
            constexpr std::size_t kLimit = 3 * World<Inner>::kGrowth;
            constexpr std::int64_t kSmall = 8000;
            constexpr std::int64_t kLarge = 40000;
            world.open({.groups = 2}, kLimit);
            for (int round = 0; round < 2; ++round) {
              {
                std::vector<Tensor<float, R>> small;
                for (int i = 0; i < 4; ++i) {
                  StreamScope const scope((*world.pool)[i / 2]);
                  small.emplace_back(*world.device, Shape{kSmall});
                  fill_bytes(small.back(), 1);
                }
              }
              for (int i = 0; i < 2; ++i) {
                world.device->runtime().synchronize_stream((*world.pool)[i].compute().native());
              }
              StreamScope const scope((*world.pool)[round]);
              Tensor<float, R> const large(*world.device, {kLarge});
              fill_bytes(large, 0);
              ASSERT_THAT(to_host(large), ::testing::Each(0.0F));
            }
            world.pool->synchronize();
          }};
}

template <Runtime Inner>
Scenario<Inner> pinned_copies() {
  return {"pinned copies", [](World<Inner>& world) {
            using R = typename World<Inner>::R;
            constexpr std::int64_t kCount = 200;
            world.open();
            PinnedArray<float, R> up(*world.device, kCount);
            PinnedArray<float, R> down(*world.device, kCount);
            Tensor<float, R> const x(*world.device, {kCount});
            world.left_behind.push_back(x);
            for (int round = 0; round < 4; ++round) {
              StreamScope const scope((*world.pool)[round % 2]);
              std::ranges::fill(up.elements(), static_cast<float>(round));
              copy(x, up);
              copy(down, x);
              up.wait();
              down.wait();
              ASSERT_THAT(down.elements(), ::testing::Each(static_cast<float>(round)));
            }
          }};
}

/// A scenario that launches work outside of issue(), and orders it with publish(), TensorHolder,
/// record and wait.
template <Runtime Inner>
Scenario<Inner> ordering_by_hand() {
  return {"ordering by hand", [](World<Inner>& world) {
            using R = typename World<Inner>::R;
            constexpr std::int64_t kCount = 200;
            world.open();
            auto& runtime = world.device->runtime();
            Stream<R> const first(*world.device);
            Stream<R> const second(*world.device);
            auto const x = to_device<float>(*world.device, ascending(kCount), {kCount});
            Tensor<float, R> const y(*world.device, {kCount});
            world.left_behind = {x, y};
            publish(x);
            {
              TensorHolder holder(first, second);
              holder.hold(x);
              holder.hold(y);
              runtime.fill(y.data(), 0, y.bytes(), first.native());
              auto const filled = first.record();
              second.wait(filled);
              runtime.copy(y.data(), x.data(), x.bytes(), CopyKind::d2d, second.native());
              static_cast<void>(filled.query());
              filled.synchronize();
            }
            ASSERT_EQ(to_host(y), ascending(kCount));
            first.synchronize();
            second.synchronize();
          }};
}

template <Runtime Inner>
Scenario<Inner> spans() {
  return {"spans", [](World<Inner>& world) {
            using R = typename World<Inner>::R;
            world.open();
            Tensor<float, R> const x(*world.device, {100});
            world.left_behind.push_back(x);
            for (int recording = 0; recording < 2; ++recording) {
              world.device->start_spans();
              for (int i = 0; i < 3; ++i) {
                StreamScope const scope((*world.pool)[i % 2]);
                fill_bytes(x, 0);
              }
              ASSERT_EQ(world.device->stop_spans().spans().size(), 3U);
            }
            world.pool->synchronize();
          }};
}

/// A scenario that looks up rows of frozen weights on all groups, with a trap for ids out of range.
template <Runtime Inner>
Scenario<Inner> frozen_lookups() {
  return {"frozen lookups", [](World<Inner>& world) {
            using R = typename World<Inner>::R;
            world.open();
            auto table = to_device<float>(*world.device, ascending(12), {6, 2});
            table.freeze();
            auto const ids =
                to_device<std::int64_t>(*world.device, std::vector<std::int64_t>{5, 0, 3}, {3});
            for (int i = 0; i < 3; ++i) {
              StreamScope const scope((*world.pool)[i % 2]);
              auto const rows = ops::embedding_lookup(
                  table,
                  ops::Bags<R>(ids),
                  ops::LookupOptions<R>{.out_of_range = ops::OutOfRange::trap});
              ASSERT_EQ(to_host(rows), (Floats{10, 11, 0, 1, 6, 7}));
            }
            world.pool->synchronize();
          }};
}

/// A scenario that captures a step over two groups and replays it between operations outside the
/// graph. The step outlives the scenario, because a failure in its destructor would not be
/// reported.
template <Runtime Inner>
Scenario<Inner> captured_step() {
  return {"captured step",
          [](World<Inner>& world) {
            using R = typename World<Inner>::R;
            world.open();
            if constexpr (CapturingRuntime<R>) {
              constexpr std::int64_t kCount = 300;
              auto const x = to_device<float>(*world.device, ascending(kCount), {kCount});
              auto const step = std::make_shared<CapturedStep<R>>(*world.device, [&] {
                auto y = ops::scale(x, 2);
                StreamScope const scope((*world.pool)[1]);
                y = ops::scale(y, 2);
                copy(x, ops::scale(y, 0.5F));
              });
              world.kept = step;
              for (int round = 0; round < 2; ++round) {
                StreamScope const scope((*world.pool)[round]);
                step->replay();
                copy(x, ops::scale(x, 2));
              }
              step->replay();
              auto const results = to_host(x);
              world.pool->synchronize();
              ASSERT_EQ(results.back(), static_cast<float>((kCount - 1) * 32));
            }
          },
          [](World<Inner>& world) { world.kept.reset(); }};
}

/// A scenario that writes checkpoints beside other work, and loads them. Of the tensor, as many
/// bytes as `device_bytes` allows are copied within the device first. The writer is kept, because
/// its destructor makes calls whose failures no caller hears.
template <Runtime Inner>
Scenario<Inner> checkpoints(std::size_t device_bytes) {
  struct Kept {
    TemporaryFolder folder;
    std::optional<checkpoint::Writer> writer;
  };
  return {"checkpoints",
          [device_bytes](World<Inner>& world) {
            constexpr std::int64_t kCount = 2000;
            world.open({.groups = 2});
            StreamScope const scope((*world.pool)[0]);
            auto const x = to_device<float>(*world.device, ascending(kCount), {kCount});
            world.left_behind.push_back(x);
            checkpoint::Tensors const tensors([&](auto const& visit) { visit("x", x); });
            auto const kept = std::make_shared<Kept>();
            world.kept = kept;
            kept->writer.emplace(tensors,
                                 checkpoint::WriterOptions{.folder = kept->folder.path(),
                                                           .device_bytes = device_bytes,
                                                           .pinned_bytes = 4096});
            auto& writer = *kept->writer;
            for (int step = 1; step <= 2; ++step) {
              writer.save({.step = step});
              fill_bytes(x, 0);
            }
            writer.wait();
            checkpoint::load(writer.path_of(1), tensors);
            auto const first = to_host(x);
            checkpoint::load(writer.path_of(2), tensors);
            ASSERT_EQ(first, ascending(kCount));
            ASSERT_THAT(to_host(x), ::testing::Each(0.0F));
          },
          [](World<Inner>& world) {
            // The writer writes again, if it could be made.
            if (auto* const kept = static_cast<Kept*>(world.kept.get());
                kept != nullptr && kept->writer) {
              try {
                kept->writer->wait();
              } catch (CudaError const&) {  // NOLINT(bugprone-empty-catch): of the scenario
              }
              kept->writer->save({.step = 3});
              kept->writer->wait();
            }
            world.kept.reset();
          }};
}

}  // namespace msstream::testing
