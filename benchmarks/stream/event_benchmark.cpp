// SPDX-License-Identifier: Apache-2.0
#include "comparison.hpp"
#include "suite.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <fmt/core.h>

#include <memory>
#include <vector>

/// Benchmarks of the CPU time of streams, events and the tracker, compared with the runtime's own
/// calls.
namespace benchmarks {
namespace {

/// Two streams of msstream, and an event of the runtime with which the same work is done without
/// msstream.
template <ms::Runtime R>
class StreamPair {
 public:
  StreamPair() : runtime_(device_.runtime()), bare_(runtime_) {}
  StreamPair(StreamPair const&) = delete;
  StreamPair& operator=(StreamPair const&) = delete;
  ~StreamPair() { runtime_.destroy_event(event_); }

  ms::Stream<R> const& source() const { return source_; }
  ms::Stream<R> const& target() const { return target_; }
  Bare<R> const& bare() const { return bare_; }
  typename R::native_stream native_source() const { return native_source_; }
  typename R::native_stream native_target() const { return native_target_; }
  typename R::native_event event() const { return event_; }
  void settle() {
    runtime_.synchronize_stream(native_source_);
    runtime_.synchronize_stream(native_target_);
    bare_.check();
  }

 private:
  ms::Device<R> device_;
  R& runtime_;
  Bare<R> bare_;
  ms::Stream<R> source_{device_};
  ms::Stream<R> target_{device_};
  typename R::native_stream native_source_ = source_.native();
  typename R::native_stream native_target_ = target_.native();
  typename R::native_event event_ = runtime_.create_event(ms::EventTiming::untimed);
};

template <class Operation>
Team::Work batch_of(Operation operation) {
  return [operation](int) mutable {
    for (int i = 0; i < axes::kOperationsPerBatch; ++i) {
      operation();
    }
  };
}

template <ms::Runtime R>
void record(benchmark::State& state) {
  StreamPair<R> pair;
  compare(state,
          1,
          axes::kOperationsPerBatch,
          {.bare = batch_of([&] { pair.bare().record(pair.event(), pair.native_source()); }),
           .ours = batch_of([&] { benchmark::DoNotOptimize(pair.source().record()); }),
           .settle = [&] { pair.settle(); }});
}

/// Measures a record and a wait for its event, which is new each time, so that msstream elides no
/// wait.
template <ms::Runtime R>
void record_and_wait(benchmark::State& state) {
  StreamPair<R> pair;
  compare(state,
          1,
          axes::kOperationsPerBatch,
          {.bare = batch_of([&] {
             pair.bare().record(pair.event(), pair.native_source());
             pair.bare().wait(pair.native_target(), pair.event());
           }),
           .ours = batch_of([&] { pair.target().wait(pair.source().record()); }),
           .settle = [&] { pair.settle(); }});
}

/// Measures the repetition of one wait. msstream elides all but the first, which covers the others.
template <ms::Runtime R>
void wait_elided(benchmark::State& state) {
  StreamPair<R> pair;
  auto const event = pair.source().record();
  auto const native = event.native();
  compare(state,
          1,
          axes::kOperationsPerBatch,
          {.bare = batch_of([&] { pair.bare().wait(pair.native_target(), native); }),
           .ours = batch_of([&] { pair.target().wait(event); }),
           .settle = [&] { pair.settle(); }});
}

template <ms::Runtime R>
void query_complete(benchmark::State& state) {
  StreamPair<R> pair;
  auto const event = pair.source().record();
  auto const native = event.native();
  event.synchronize();
  compare(state,
          1,
          axes::kOperationsPerBatch,
          {.bare = batch_of([&] { benchmark::DoNotOptimize(pair.bare().query(native)); }),
           .ours = batch_of([&] { benchmark::DoNotOptimize(event.query()); }),
           .settle = [&] { pair.settle(); }});
}

/// One operation forks into `forks` streams, which join in the next one; nothing is launched. The
/// bare side makes a record and two waits per stream, and a record at the join. msstream's side
/// also issues an operation on every stream, and finds the necessary waits.
template <ms::Runtime R>
class ForkJoin {
 public:
  explicit ForkJoin(int forks)
      : runtime_(device_.runtime()),
        bare_(runtime_),
        pool_(device_, {.groups = forks + 1}),
        joined_(ms::zeros<float>(device_, {1})) {
    for (int fork = 0; fork < forks; ++fork) {
      parts_.push_back(ms::zeros<float>(device_, {1}));
    }
    for (int fork = 0; fork <= forks; ++fork) {
      streams_.push_back(pool_[fork].compute().native());
      events_.push_back(runtime_.create_event(ms::EventTiming::untimed));
    }
  }
  ForkJoin(ForkJoin const&) = delete;
  ForkJoin& operator=(ForkJoin const&) = delete;
  ~ForkJoin() {
    for (auto event : events_) {
      runtime_.destroy_event(event);
    }
  }

  void ours() {
    for (std::size_t fork = 0; fork < parts_.size(); ++fork) {
      ms::StreamScope<R> const branch(pool_[static_cast<int>(fork) + 1]);
      ms::issue("fork", ms::reads(joined_), ms::writes(parts_[fork]), [](auto) {});
    }
    ms::StreamScope<R> const trunk(pool_[0]);
    ms::issue("join", ms::reads(parts_), ms::writes(joined_), [](auto) {});
  }
  void bare() {
    auto const trunk = streams_[0];
    for (std::size_t fork = 0; fork < parts_.size(); ++fork) {
      auto const branch = streams_[fork + 1];
      bare_.wait(branch, events_[0]);
      bare_.record(events_[fork + 1], branch);
      bare_.wait(trunk, events_[fork + 1]);
    }
    bare_.record(events_[0], trunk);
  }
  void settle() {
    for (auto const stream : streams_) {
      runtime_.synchronize_stream(stream);
    }
    bare_.check();
  }

 private:
  ms::Device<R> device_;
  R& runtime_;
  Bare<R> bare_;
  ms::StreamPool<R> pool_;
  ms::Tensor<float, R> joined_;
  std::vector<ms::Tensor<float, R>> parts_;
  std::vector<typename R::native_stream> streams_;  ///< streams of the groups, the trunk's first
  std::vector<typename R::native_event> events_;
};

template <ms::Runtime R>
void fork_join(benchmark::State& state, int forks) {
  ForkJoin<R> work(forks);
  int const rounds = axes::kOperationsPerBatch / (2 * forks);  // a fork has two waits
  auto const repeated = [rounds](auto round) {
    return [=](int) {
      for (int i = 0; i < rounds; ++i) {
        round();
      }
    };
  };
  compare(state,
          1,
          rounds,
          {.bare = repeated([&] { work.bare(); }),
           .ours = repeated([&] { work.ours(); }),
           .settle = [&] { work.settle(); }});
}

template <ms::Runtime R>
void add_all() {
  auto const add_one = [](char const* what, void (*function)(benchmark::State&)) {
    add(fmt::format("event/{}/{}", R::name, what), axes::kBatches, function);
  };
  add_one("record", record<R>);
  add_one("record_and_wait", record_and_wait<R>);
  add_one("wait_elided", wait_elided<R>);
  add_one("query_complete", query_complete<R>);
  for (int const forks : axes::kForks) {
    add(fmt::format("event/{}/fork_join/streams:{}", R::name, forks),
        axes::kBatches,
        [=](benchmark::State& state) { fork_join<R>(state, forks); });
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
