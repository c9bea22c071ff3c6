// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"
#include "suite.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

/// Benchmarks of the CPU time of issue() with two reads and one write, compared with the same
/// launch without it.
namespace benchmarks {
namespace {

/// The work that the measured operation launches.
enum class Work : std::uint8_t { nothing, empty_kernel };
/// The origin of the operation's inputs, which determines what issue() has to do.
enum class Inputs : std::uint8_t {
  own,        ///< written on the operation's group: no wait is needed
  immutable,  ///< frozen: reads are not even tracked
  covered,    ///< written on another group, for which the stream already has a wait
  crossing,   ///< the operation before is on another group: a record and a wait each time
};

constexpr std::string_view name_of(Work work) {
  return work == Work::nothing ? "no_launch" : "empty_kernel";
}
constexpr std::string_view name_of(Inputs inputs) {
  constexpr std::string_view names[] = {"own", "immutable", "covered", "crossing"};
  return names[static_cast<int>(inputs)];
}

/// The stream groups and the tensors of one issuing thread.
template <ms::Runtime R>
class Lane {
 public:
  Lane(ms::Device<R> const& device,
       ms::StreamPool<R> const& pool,
       int thread,
       Work work,
       Inputs inputs)
      : runtime_(device.runtime()),
        bare_(runtime_),
        home_(pool[2 * thread]),
        other_(pool[2 * thread + 1]),
        work_(work),
        inputs_(inputs),
        left_(made_on(inputs == Inputs::covered ? other_ : home_, device)),
        right_(made_on(home_, device)),
        result_(made_on(home_, device)),
        crossed_{runtime_.create_event(ms::EventTiming::untimed),
                 runtime_.create_event(ms::EventTiming::untimed)} {
    if (inputs == Inputs::immutable) {
      left_.freeze();
      right_.freeze();
    }
  }
  Lane(Lane const&) = delete;
  Lane& operator=(Lane const&) = delete;
  ~Lane() {
    for (auto event : crossed_) {
      runtime_.destroy_event(event);
    }
  }

  void issue_batch() {
    ms::StreamScope<R> const scope(home_);
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      if (inputs_ == Inputs::crossing && i % 2 == 1) {
        ms::StreamScope<R> const crossing(other_);
        issue_one();
      } else {
        issue_one();
      }
    }
  }

  void launch_batch() {
    typename R::native_stream const natives[] = {home_.compute().native(),
                                                 other_.compute().native()};
    typename R::stream_ref const streams[] = {runtime_.ref(natives[0], {}),
                                              runtime_.ref(natives[1], {})};
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      int const here = inputs_ == Inputs::crossing ? i % 2 : 0;
      if (inputs_ == Inputs::crossing) {
        bare_.record(crossed_[1 - here], natives[1 - here]);
        bare_.wait(natives[here], crossed_[1 - here]);
      }
      if (work_ == Work::empty_kernel) {
        Bare<R>::launch_empty(streams[here]);
      }
    }
  }

  void settle() {
    runtime_.synchronize_stream(home_.compute().native());
    runtime_.synchronize_stream(other_.compute().native());
    bare_.check();
  }

 private:
  static ms::Tensor<float, R> made_on(ms::StreamGroup<R> const& group,
                                      ms::Device<R> const& device) {
    ms::StreamScope<R> const scope(group);
    return ms::zeros<float>(device, {64});
  }

  void issue_one() {
    if (work_ == Work::empty_kernel) {
      ms::issue("empty", ms::reads(left_, right_), ms::writes(result_), [](auto stream) {
        Bare<R>::launch_empty(stream);
      });
    } else {
      ms::issue("nothing", ms::reads(left_, right_), ms::writes(result_), [](auto) {});
    }
  }

  R& runtime_;
  Bare<R> bare_;
  ms::StreamGroup<R> home_;
  ms::StreamGroup<R> other_;
  Work work_;
  Inputs inputs_;
  ms::Tensor<float, R> left_;
  ms::Tensor<float, R> right_;
  ms::Tensor<float, R> result_;
  typename R::native_event crossed_[2];
};

template <ms::Runtime R>
void run(benchmark::State& state, Work work, Inputs inputs, int threads) {
  ms::Device<R> const device;
  ms::StreamPool<R> pool(device, {.groups = 2 * threads});
  std::vector<std::unique_ptr<Lane<R>>> lanes;
  for (int thread = 0; thread < threads; ++thread) {
    lanes.push_back(std::make_unique<Lane<R>>(device, pool, thread, work, inputs));
  }
  auto const lane = [&](int thread) -> Lane<R>& {
    return *lanes[static_cast<std::size_t>(thread)];
  };
  compare(state,
          threads,
          threads * axes::kOperationsPerBatch,
          {.bare = [&](int thread) { lane(thread).launch_batch(); },
           .ours = [&](int thread) { lane(thread).issue_batch(); },
           .settle =
               [&] {
                 for (auto const& each : lanes) {
                   each->settle();
                 }
               }});
}

template <ms::Runtime R>
void add_all() {
  auto const add_one = [](Work work, Inputs inputs, int threads) {
    auto const name = fmt::format("issue/{}/{}/{}", R::name, name_of(work), name_of(inputs));
    add(fmt::format("{}/threads:{}", name, threads), axes::kBatches, [=](benchmark::State& state) {
      run<R>(state, work, inputs, threads);
    });
  };
  for (auto const work : {Work::nothing, Work::empty_kernel}) {
    for (auto const inputs : {Inputs::own, Inputs::immutable, Inputs::covered, Inputs::crossing}) {
      add_one(work, inputs, 1);
    }
    for (int const threads : axes::kThreads) {
      if (threads > 1) {
        add_one(work, Inputs::own, threads);
      }
    }
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>();
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>();
#endif
}

}  // namespace benchmarks
