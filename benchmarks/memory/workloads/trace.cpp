// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace benchmarks::workloads {

namespace {

constexpr double kDominantPart = 0.65;
constexpr std::uint64_t kDominantPercent = 70;
constexpr int kTurnsOfDominance = 2;
constexpr int kFreesAtOnce =
    4;  ///< most frees of a stream above its budget before the next allocation

/// Makes a trace. It draws random numbers in one fixed order, so that the trace is a function of
/// the shape.
class TraceMaker {
 public:
  explicit TraceMaker(TraceShape const& shape)
      : shape_(shape),
        random_(shape.seed),
        live_(static_cast<std::size_t>(shape.streams)),
        live_bytes_(static_cast<std::size_t>(shape.streams)) {}

  Trace make() && {
    for (int step = 0; step < shape_.allocations; ++step) {
      allocate(step);
    }
    for (std::size_t stream = 0; stream < live_.size(); ++stream) {
      while (!live_[stream].empty()) {
        free_one(stream);
      }
    }
    return std::move(trace_);
  }

 private:
  struct LiveBlock {
    std::uint32_t number;
    std::size_t bytes;
  };

  [[nodiscard]] std::size_t streams() const { return live_.size(); }
  [[nodiscard]] std::size_t dominant_at(int step) const {
    auto const turns = static_cast<std::int64_t>(kTurnsOfDominance * streams());
    return static_cast<std::size_t>(step * turns / shape_.allocations) % streams();
  }
  [[nodiscard]] std::size_t budget(std::size_t stream, std::size_t dominant) const {
    auto const all = static_cast<double>(shape_.live_bytes);
    if (streams() == 1) {
      return shape_.live_bytes;
    }
    return static_cast<std::size_t>(stream == dominant ? all * kDominantPart
                                                       : all * (1 - kDominantPart) /
                                                             static_cast<double>(streams() - 1));
  }

  void allocate(int step) {
    auto const dominant = dominant_at(step);
    bool const by_dominant = streams() == 1 || random_() % 100 < kDominantPercent;
    auto const stream = by_dominant ? dominant : random_() % streams();
    auto const bytes = shape_.sizes.draw(random_);
    make_room(stream, bytes, dominant);

    auto const block = trace_.blocks++;
    live_[stream].push_back({block, bytes});
    live_bytes_[stream] += bytes;
    all_live_bytes_ += bytes;
    trace_.peak_live_bytes = std::max(trace_.peak_live_bytes, all_live_bytes_);
    add(true, {block, bytes}, stream, stream);
  }
  void make_room(std::size_t stream, std::size_t bytes, std::size_t dominant) {
    for (std::size_t other = 0; other < streams(); ++other) {
      for (int freed = 0; other != stream && freed < kFreesAtOnce && !live_[other].empty() &&
                          live_bytes_[other] > budget(other, dominant);
           ++freed) {
        free_one(other);
      }
    }
    while (!live_[stream].empty() && live_bytes_[stream] + bytes > budget(stream, dominant)) {
      free_one(stream);
    }
    while (all_live_bytes_ + bytes > shape_.live_bytes && all_live_bytes_ != 0) {
      auto const most = std::max_element(live_bytes_.begin(), live_bytes_.end());
      free_one(static_cast<std::size_t>(most - live_bytes_.begin()));
    }
  }
  void free_one(std::size_t owner) {
    auto& blocks = live_[owner];
    auto const place = random_() % blocks.size();
    auto const block = std::exchange(blocks[place], blocks.back());
    blocks.pop_back();
    live_bytes_[owner] -= block.bytes;
    all_live_bytes_ -= block.bytes;

    auto user = owner;
    auto const foreign_permille = static_cast<std::uint64_t>(shape_.foreign_frees * 1000);
    if (streams() > 1 && random_() % 1000 < foreign_permille) {
      user = (owner + 1 + random_() % (streams() - 1)) % streams();
    }
    add(false, block, owner, user);
  }
  void add(bool allocates, LiveBlock block, std::size_t owner, std::size_t user) {
    trace_.operations.push_back(
        {allocates, block.number, static_cast<int>(owner), static_cast<int>(user), block.bytes});
  }

  TraceShape const& shape_;
  std::mt19937_64 random_;
  std::vector<std::vector<LiveBlock>> live_;
  std::vector<std::size_t> live_bytes_;
  std::size_t all_live_bytes_ = 0;
  Trace trace_;
};

}  // namespace

std::size_t SizeMix::draw(std::mt19937_64& random) const {
  std::uniform_real_distribution<double> logarithms(std::log(static_cast<double>(least)),
                                                    std::log(static_cast<double>(most)));
  return std::clamp(static_cast<std::size_t>(std::exp(logarithms(random))), least, most);
}

Trace make_trace(TraceShape const& shape) {
  return TraceMaker(shape).make();
}

}  // namespace benchmarks::workloads
