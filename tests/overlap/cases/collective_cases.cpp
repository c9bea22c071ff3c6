// SPDX-License-Identifier: Apache-2.0
// Public reports in which collectives held work up.
#include "overlap/cases/case.hpp"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap::cases {
namespace {

Kernel collective(
    std::string name, Ns duration, std::string group, std::int64_t sequence, int blocks = 16) {
  return {.name = "ncclDevKernel_" + name,
          .duration = duration,
          .blocks = blocks,
          .threads = 640,
          .registers = 96,
          .collective = CollectiveOf{name, std::move(group), sequence, 8'000'000}};
}

/// NVIDIA/nccl 689: the blocks of an all-reduce take whole multiprocessors, and a product of one
/// wave no longer fits. Fixed: few channels (NCCL_MAX_NCHANNELS), and a product that leaves room.
std::vector<Recording> blocks_of_all_reduce(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int i = 0; i < 8; ++i) {
    program.thread()
        .launch(comm, collective("AllReduce", 400 * us, "dp", i, fixed ? 4 : 132))
        .launch(compute,
                {.name = "gemm",
                 .duration = 300 * us,
                 .blocks = fixed ? 120 : 132,
                 .threads = 384,
                 .registers = 168});
  }
  return one(program.run());
}

/// NVIDIA/nccl 1139: a kernel of another stream is blocked for as long as an all-reduce runs.
/// Fixed: few channels.
std::vector<Recording> blocked_by_all_reduce(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int i = 0; i < 6; ++i) {
    auto reduce = collective("AllReduce", 800 * us, "dp", i, fixed ? 8 : 132);
    program.thread().launch(comm, reduce);
    for (int j = 0; j < 3; ++j) {
      program.thread().launch(compute,
                              {.name = "attention",
                               .duration = 250 * us,
                               .blocks = 100,
                               .threads = 512,
                               .registers = 120});
    }
  }
  return one(program.run());
}

/// meta-pytorch/torchrec 4251: an all-to-all and an all-reduce of one process group run in the
/// group's one stream, in the order of their calls, while both inputs are ready. Fixed: a second
/// process group. The next one is small, so that the link is not shared.
std::vector<Recording> one_process_group(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const group = program.stream();
  auto const other = fixed ? program.stream() : group;
  for (int i = 0; i < 6; ++i) {
    auto const reduced = program.event();
    program.thread()
        .launch(group, collective("AllToAll", 500 * us, "a", 2 * i))
        .launch(other, collective("AllReduce", 60 * us, fixed ? "b" : "a", 2 * i + 1))
        .record(reduced, other)
        .wait(compute, reduced)
        .launch(compute, {.name = "optimizer", .duration = 400 * us, .blocks = 100});
  }
  return one(program.run());
}

/// meta-pytorch/torchrec 4708: an asynchronous all-to-all, compute that does not need it, and an
/// all-reduce of the same group that the next compute needs. Fixed: another group.
std::vector<Recording> serialised_collectives(bool fixed) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const group = program.stream();
  auto const other = fixed ? program.stream() : group;
  for (int i = 0; i < 6; ++i) {
    auto const computed = program.event();
    auto const reduced = program.event();
    program.thread()
        .launch(group, collective("AllToAll", 850 * us, "a", 2 * i))
        .launch(compute, {.name = "forward", .duration = 200 * us, .blocks = 100})
        .record(computed, compute)
        .wait(other, computed)
        .launch(other, collective("AllReduce", 80 * us, fixed ? "b" : "a", 2 * i + 1))
        .record(reduced, other)
        .wait(compute, reduced)
        .launch(compute, {.name = "update", .duration = 450 * us, .blocks = 100});
  }
  return one(program.run());
}

/// Runs two ranks: the late one comes to each collective `late` after the other one, because its
/// host prepares input for longer. The early one's collective waits for it.
std::vector<Recording> two_ranks(Ns late, int steps) {
  auto const build = [&](Ns input, Recording const* peer) {
    TraceBuilder program;
    auto const compute = program.stream();
    auto const comm = program.stream();
    for (int i = 0; i < steps; ++i) {
      auto const ready = program.event();
      auto const reduced = program.event();
      auto reduce = collective("AllReduce", 100 * us, "dp", i);
      if (peer != nullptr) {
        auto const index = find_activity(*peer, reduce.name, static_cast<std::size_t>(i));
        reduce.ends_at = peer->activities[index].time.end;
      }
      program.thread()
          .launch(compute, {.name = "step", .duration = 400 * us + input, .blocks = 100})
          .record(ready, compute)
          .wait(comm, ready)
          .launch(comm, reduce)
          .record(reduced, comm)
          .wait(compute, reduced)
          .launch(compute, {.name = "update", .duration = 50 * us, .blocks = 100});
    }
    return program.run();
  };
  auto slow = build(late, nullptr);
  auto fast = build(0, &slow);
  std::vector<Recording> ranks;
  ranks.push_back(std::move(fast));
  ranks.push_back(std::move(slow));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].rank = static_cast<int>(i);
    ranks[i].ranks = 2;
  }
  return ranks;
}

/// NVIDIA/nccl 146: participants that started early occupy the device until the others come.
/// Fixed: equal work on all ranks.
std::vector<Recording> early_participant(bool fixed) {
  return two_ranks(fixed ? 0 : 600 * us, 6);
}

/// Like early_participant(), as traces without sequence numbers have it. Fixed: equal work.
std::vector<Recording> early_without_numbers(bool fixed) {
  auto ranks = early_participant(fixed);
  for (auto& rank : ranks) {
    for (auto& collective : rank.collectives) {
      collective.sequence = kUnknown;
    }
  }
  return ranks;
}

/// Data parallel training of half batches: the second half's forward could run beside the first
/// half's all-reduce, but one stream and one communicator order them. Fixed: two of each.
std::vector<Recording> half_batches(bool fixed) {
  TraceBuilder program;
  std::vector<StreamNumber> compute{program.stream()};
  compute.push_back(fixed ? program.stream() : compute[0]);
  std::vector<StreamNumber> comm{program.stream()};
  comm.push_back(fixed ? program.stream() : comm[0]);
  for (int step = 0; step < 5; ++step) {
    for (std::size_t half = 0; half < 2; ++half) {
      auto const ready = program.event();
      auto const reduced = program.event();
      auto const suffix = std::to_string(half);
      program.thread()
          .launch(compute[half], {.name = "forward_" + suffix, .duration = 200 * us, .blocks = 50})
          .launch(compute[half], {.name = "backward_" + suffix, .duration = 300 * us, .blocks = 50})
          .record(ready, compute[half])
          .wait(comm[half], ready)
          .launch(comm[half],
                  collective("AllReduce",
                             400 * us,
                             fixed ? suffix : "dp",
                             fixed ? step : 2 * step + static_cast<int>(half)))
          .record(reduced, comm[half])
          .wait(compute[half], reduced)
          .launch(compute[half], {.name = "update_" + suffix, .duration = 50 * us, .blocks = 50});
    }
  }
  auto recording = program.run();
  recording.has_dependencies = true;
  for (std::size_t half = 0; half < 2; ++half) {
    auto const suffix = std::to_string(half);
    Index before = kNone;
    for (std::size_t step = 0; step < 5; ++step) {
      auto const at = [&](std::string const& name) { return find_activity(recording, name, step); };
      // Collectives of both halves have one name: they come in turn, in the order of their calls.
      Index reduce = kNone;
      auto const backward = at("backward_" + suffix);
      auto const update = at("update_" + suffix);
      for (Index i = 0; i < recording.activities.size(); ++i) {
        auto const& activity = recording.activities[i];
        if (activity.collective != kNone && activity.stream == comm[half] &&
            activity.time.begin >= recording.activities[backward].time.end &&
            activity.time.end <= recording.activities[update].time.begin) {
          reduce = i;
        }
      }
      for (auto const next : {at("forward_" + suffix), backward, reduce, update}) {
        if (before != kNone) {
          recording.dependencies.push_back({before, next});
        }
        before = next;
      }
    }
  }
  return one(std::move(recording));
}

}  // namespace

std::vector<Case> collective_cases() {
  return {
      {"blocks_of_all_reduce",
       "NVIDIA/nccl 689",
       Cause::collective_holds_sms,
       {},
       blocks_of_all_reduce},
      {"blocked_by_all_reduce",
       "NVIDIA/nccl 1139",
       Cause::collective_holds_sms,
       {},
       blocked_by_all_reduce},
      {"one_process_group",
       "meta-pytorch/torchrec 4251",
       Cause::collective_order,
       {},
       one_process_group},
      {"serialised_collectives",
       "meta-pytorch/torchrec 4708",
       Cause::collective_order,
       {},
       serialised_collectives},
      {"early_participant", "NVIDIA/nccl 146", Cause::peer_skew, {}, early_participant},
      {"early_without_numbers", "", Cause::peer_skew, {}, early_without_numbers},
      {"half_batches", "", Cause::one_stream_two_roles, {}, half_batches},
  };
}

}  // namespace msstream::overlap::cases
