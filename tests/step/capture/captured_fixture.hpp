// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/ops_fixture.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <cstring>

namespace msstream::testing {

/// A host runtime whose graphs lack the order between streams. Streams join the capture, and the
/// origin waits for them at the end of the capture, but all other waits are dropped.
class HostWithoutEdges : public Host {
 public:
  using Host::Host;
  static constexpr std::string_view name = "host without edges";

  void begin_capture(native_stream stream) {
    origin_ = stream;
    Host::begin_capture(stream);
  }
  void wait(native_stream stream, native_event event) {
    if (stream == origin_ || stream->place().capture == nullptr) {
      Host::wait(stream, event);
    }
  }

 private:
  native_stream origin_ = nullptr;
};
static_assert(CapturingRuntime<HostWithoutEdges>);

[[nodiscard]] inline bool same_bits(Floats const& left, Floats const& right) {
  return left.size() == right.size() &&
         std::memcmp(left.data(), right.data(), left.size() * sizeof(float)) == 0;
}

/// A device with four groups, and a step for tests of capture that allocates, releases and reuses
/// memory on all groups.
template <Runtime R>
class StepWorld {
 public:
  using Floats32 = Tensor<float, R>;
  static constexpr int kGroups = 4;
  static constexpr std::int64_t kCount = 512;

  explicit StepWorld(DeviceOptions<R> const& options = {})
      : device(options), pool(device, {.groups = kGroups}) {}

  [[nodiscard]] Floats32 vector(float value) const {
    return to_device<float, R>(device, Floats(static_cast<std::size_t>(kCount), value), {kCount});
  }
  /// Sets y to a sum of chains of operations on x and y, which run on all groups, and then z to 2 y
  /// on one group.
  void step(Floats32 const& x, Floats32 const& y, Floats32 const& z) const {
    std::vector<Floats32> parts;
    for (int i = 0; i < 2 * kGroups; ++i) {
      StreamScope const scope(pool[i % kGroups]);
      auto part = ops::scale(x, 1.0F + 0.25F * static_cast<float>(i));
      for (int link = 0; link < 3; ++link) {
        part = ops::add(std::vector{ops::scale(part, 0.5F), y});
      }
      parts.push_back(part);
    }
    {
      StreamScope const scope(pool[1]);
      copy(y, ops::scale(ops::add(parts), 0.0625F));
    }
    parts.clear();
    StreamScope const scope(pool[2]);
    copy(z, ops::add(std::vector{y, y}));
  }

  Device<R> device;
  StreamPool<R> pool;
};

}  // namespace msstream::testing
