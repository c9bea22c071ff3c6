// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/words.hpp"

#include "overlap/find/places.hpp"
#include "overlap/find/tolerances.hpp"
#include "overlap/recording/occupancy.hpp"
#include "overlap/recording/python_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace msstream::overlap {
namespace {

constexpr std::size_t kLongestName = 72;

std::string shortened(std::string_view name) {
  if (name.size() <= kLongestName) {
    return std::string(name);
  }
  // Not inside a character of UTF-8.
  std::size_t end = kLongestName - 3;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) {
    --end;
  }
  return std::string(name.substr(0, end)) + "...";
}

/// Returns a line of Python, without the begin of a long path: its end has the line.
std::string shortened_line(std::string_view line) {
  if (line.size() <= kLongestName) {
    return std::string(line);
  }
  std::size_t begin = line.size() - (kLongestName - 3);
  while (begin < line.size() && (static_cast<unsigned char>(line[begin]) & 0xC0U) == 0x80U) {
    ++begin;
  }
  return "..." + std::string(line.substr(begin));
}

/// Returns the loop in which a host asked for something by queries, as "a loop of 12
/// cudaEventQuery() in 80.0 us, in which gemm on stream 7 ended". `first` is its first query.
std::string poll_text(Program const& program, Index first) {
  auto const& recording = program.recording();
  auto time = program.call(first).time;
  int count = 0;
  for (Index i = first; i < recording.calls.size(); ++i) {
    auto const& call = program.call(i);
    if (call.thread != program.call(first).thread) {
      continue;
    }
    if (call.kind != CallKind::query || call.time.begin - time.end > tolerance::kLongOperation) {
      break;
    }
    time.end = call.time.end;
    ++count;
  }
  // The host asked for what ended last before the last query.
  constexpr Index kMostSteps = 256;
  auto const after =
      std::ranges::lower_bound(recording.activities, time.end, {}, [](Activity const& activity) {
        return activity.time.begin;
      });
  Index ended = kNone;
  auto const place = static_cast<Index>(after - recording.activities.begin());
  for (Index i = place; i > 0 && place - i < kMostSteps;) {
    auto const end = program.activity(--i).time.end;
    if (end > time.begin && end <= time.end &&
        (ended == kNone || end > program.activity(ended).time.end)) {
      ended = i;
    }
  }
  auto const name = recording.names[program.call(first).name];
  return fmt::format("a loop of {} {}() in {}{}",
                     count,
                     name.empty() ? std::string("queries") : shortened(name),
                     duration_text(time.length()),
                     ended == kNone
                         ? std::string()
                         : fmt::format(", in which {} ended", activity_text(program, ended)));
}

std::string call_text(Program const& program, Index call) {
  if (program.call(call).kind == CallKind::query) {
    return poll_text(program, call);
  }
  auto const name = program.recording().names[program.call(call).name];
  return fmt::format("{}() of {}",
                     name.empty() ? std::string("a call") : shortened(name),
                     duration_text(program.call(call).time.length()));
}

std::string stream_text(Program const& program, Index stream) {
  auto const& recording = program.recording();
  auto const& what = recording.streams[stream];
  auto const name = recording.names[what.name];
  return name.empty() ? recording.text_of_stream(what) : shortened(name);
}

/// Returns the place at which a call was made, as " (in range NAME, SOURCE, at train.py(42):
/// step)"; empty if it is not known. `range` is one around the call.
std::string place_text(Recording const& recording, Index range, Index call) {
  std::string text;
  if (range != kNone) {
    auto const source = recording.names[recording.ranges[range].source];
    text = fmt::format("in range {}{}",
                       shortened(recording.names[recording.ranges[range].name]),
                       source.empty() ? std::string() : fmt::format(", {}", source));
  }
  if (auto const code = recording.names[recording.calls[call].code]; !code.empty()) {
    text += fmt::format("{}at {}",
                        text.empty() ? "" : ", ",
                        file_of_python_line(code) ? shortened_line(code) : shortened(code));
  }
  return text.empty() ? text : fmt::format(" ({})", text);
}

std::string place_text(Program const& program, Index call) {
  auto const& recording = program.recording();
  return place_text(recording, innermost_range(recording, call), call);
}

/// Returns what the host was in, with the place of the program at which it called that.
std::string host_text(Program const& program, Index call) {
  auto const& recording = program.recording();
  return fmt::format("; the host was in {}{}",
                     call_text(program, call),
                     place_text(recording, named_range(recording, call), call));
}

/// Returns where a call was made, as " at 1.234 ms (in range NAME)".
std::string made_text(Program const& program, Index call) {
  return fmt::format(" at {:.3f} ms{}",
                     static_cast<double>(program.call(call).time.begin) / 1e6,
                     place_text(program, call));
}

std::string place_of_activity(Program const& program, Index activity) {
  auto const call = activity == kNone ? kNone : program.activity(activity).call;
  return call == kNone ? std::string() : place_text(program, call);
}

/// Whether a call only launched work, which the cause says already.
bool is_usual_launch(Program const& program, Cause cause, Index call) {
  return cause == Cause::launch_bound && program.call(call).kind != CallKind::other;
}

/// Whether copies waited, or were waited for, in most of the largest occurrences of a cause.
bool is_of_copies(Program const& program, CauseSum const& sum) {
  auto const is_copy = [&](Index i) {
    return i != kNone && program.activity(i).kind == ActivityKind::copy;
  };
  auto const count = std::ranges::count_if(sum.largest, [&](Charge const& charge) {
    return is_copy(charge.held) || is_copy(charge.holder);
  });
  return 2 * static_cast<std::size_t>(count) > sum.largest.size();
}

std::string sm_text(Program const& program, Index running, Index held) {
  auto const& recording = program.recording();
  if (running == kNone || program.activity(running).shape == kNone) {
    return {};
  }
  auto const& shape = recording.shapes[program.activity(running).shape];
  auto const& device = recording.devices[program.device_of(running)];
  auto const occupancy = occupancy_of(device, shape);
  if (!occupancy) {
    return {};
  }
  auto const other = held == kNone ? kNone : program.activity(held).shape;
  auto const lack =
      lacking(device, shape, other == kNone ? LaunchShape{} : recording.shapes[other]);
  auto const wanted = other == kNone ? std::nullopt : occupancy_of(device, recording.shapes[other]);
  return fmt::format(" ({} blocks, {} at once on {} multiprocessors, limited by {}{})",
                     occupancy->blocks,
                     occupancy->blocks_per_sm * occupancy->sms,
                     occupancy->sms,
                     text_of(lack.value_or(occupancy->limit)),
                     wanted && !lack
                         ? fmt::format(", beside which {} do not all find room", wanted->blocks)
                         : std::string());
}

}  // namespace

std::string activity_text(Program const& program, Index activity) {
  if (activity == kNone) {
    return "the end of the window";
  }
  auto const& recording = program.recording();
  auto const& what = program.activity(activity);
  auto const name = recording.names[what.name];
  return fmt::format("{} on {}",
                     name.empty() ? std::string("work") : shortened(name),
                     stream_text(program, what.stream));
}

std::string room_text() {
  return "The kernels leave room for each other on the multiprocessors: it depends on whether they "
         "are as fast side by side.";
}

std::string unknown_waits_text() {
  return "The recording lacks the waits of streams: more than what was lost is gained only if the "
         "streams wait for each other less than they seem to.";
}

std::string class_text(Cause cause, CauseSum const& sum, Ns steps) {
  if (cause == Cause::true_dependency) {
    auto const alone = sum.idle == 0     ? std::string(" It counts as time alone.")
                       : sum.beside == 0 ? std::string(
                                               " It is idle: the work waited for another "
                                               "device.")
                                         : fmt::format(
                                               " Of it, {} are idle, for work of another "
                                               "device, and the others count as time "
                                               "alone.",
                                               duration_text(sum.idle));
    return alone +
           (steps > 0 ? fmt::format(" The {} that count as idle for this cause are the steps from "
                                    "one activity to the next.",
                                    duration_text(steps))
                      : std::string());
  }
  if (sum.beside <= 0) {
    return {};
  }
  if (cause == Cause::multiprocessors_full) {
    return " It counts as time alone: side by side, the kernels would take as long.";
  }
  return fmt::format(" {} as time with two or more activities.",
                     sum.beside == sum.time()
                         ? std::string("It counts")
                         : fmt::format("Of it, {} count", duration_text(sum.beside)));
}

std::string unrecorded_text(RecordingCost const& cost) {
  auto const least = duration_text(cost.least_window);
  auto const most = duration_text(cost.most_window);
  return least == most ? least : fmt::format("{} to {}", least, most);
}

std::string range_text(Cause cause) {
  switch (cause) {
    case Cause::multiprocessors_full:
      return "It depends on whether the kernels are as fast with fewer blocks, which a recording "
             "does not tell.";
    case Cause::short_kernels:
      return "From the steps between the nodes of a graph to fused kernels, which have no time "
             "between "
             "them.";
    case Cause::launch_bound:
      return "At worst, the graph's kernels begin as late after each other as they do now; fused "
             "kernels have no time between them.";
    case Cause::bandwidth_shared:
      return "It depends on how much of what they share they need after the change.";
    case Cause::false_dependency:
      return "A recording does not tell what work reads and writes: nothing is gained if it needs "
             "all that it waits for.";
    case Cause::pageable_copy:
      return "The recording has no pinned copies: assumed is the rate of a PCI Express bus of 16 "
             "lanes "
             "for the device's generation, and half of that at worst.";
    case Cause::copy_engine:
      return "From the copies that waited, issued first, to the large one in pieces, between which "
             "all small copies pass.";
    case Cause::collective_order:
      return "Nothing is gained if what waits needs both collectives, or if they share a link.";
    case Cause::collective_holds_sms:
      return "Nothing is gained if something else held the kernel, which the recording does not "
             "tell.";
    case Cause::true_dependency:
      return "Without the waits between the streams, if the program needs none of them.";
    default:
      return {};
  }
}

std::string summary(Program const& program, Cause cause, CauseSum const& sum, Interval window) {
  auto const amount = fmt::format(
      "{} ({} of the window)", duration_text(sum.time()), share_text(sum.time(), window.length()));
  auto const times = count_text(sum.occurrences, "time", "times");
  auto const of_activity = [&](Index i) { return activity_text(program, i); };
  auto const& first = sum.largest.front();
  auto const with_call = [&](std::string_view text) {
    return fmt::format("{}: {}, {}, longest {} before {}.",
                       text,
                       amount,
                       times,
                       duration_text(first.time.length()),
                       of_activity(first.held));
  };
  auto const between = [&](std::string_view text) {
    auto const longest = duration_text(first.time.length());
    auto const what =
        first.held == kNone
            ? fmt::format("{} ran until the window ended", of_activity(first.holder))
        : first.holder == kNone
            ? of_activity(first.held)
            : fmt::format("{} while {} ran", of_activity(first.held), of_activity(first.holder));
    return fmt::format("{}: {}, {}, longest {}: {}.", text, amount, times, longest, what);
  };
  switch (cause) {
    case Cause::recording_overhead:
      return with_call("The tool that recorded held the host up");
    case Cause::lazy_loading:
      return with_call("The host loaded or compiled kernels");
    case Cause::driver_allocation:
      return with_call("The host allocated or freed memory in the driver");
    case Cause::pageable_copy:
      return with_call("Copies used pageable memory, for which the host and the stream wait");
    case Cause::host_synchronization:
      return with_call("The host waited for the device before it issued more");
    case Cause::queue_is_full:
      return with_call("The host waited for room in the launch queue");
    case Cause::launch_bound:
      return with_call("The device waited for launches, which take the host longer than the work");
    case Cause::host_busy:
      return with_call("The device waited while the host issued no work");
    case Cause::legacy_stream:
      return between("The legacy default stream and a blocking stream waited for each other");
    case Cause::peer_skew:
      return fmt::format("Collectives waited for another rank: {}, {}, longest {} in {}.",
                         amount,
                         times,
                         duration_text(first.time.length()),
                         of_activity(first.holder));
    case Cause::collective_order:
      return between(sum.is_guess() ? "A collective queued behind a large one of its communicator, "
                                      "which what waits may not need"
                                    : "A collective queued behind another one of its communicator");
    case Cause::collective_holds_sms:
      return between(sum.is_guess()
                         ? "A collective's blocks left too few multiprocessors free, unless a wait "
                           "or a hardware queue held the kernel, which the recording does not tell"
                         : "A collective's blocks left too few multiprocessors free");
    case Cause::copy_engine:
      return between("A copy queued behind another one of its direction");
    case Cause::hardware_queue:
      return between("Streams shared a hardware queue");
    case Cause::priority_cannot_help:
      return between("Work of a high priority waited for running blocks of a low one");
    case Cause::multiprocessors_full:
      return between("A kernel filled the multiprocessors");
    case Cause::false_dependency:
      return between(
          !sum.is_guess() ? "A stream waited for work that it does not need"
          : is_of_copies(program, sum)
              ? "A stream waited for work of which it needs at most the memory, which "
                "another buffer frees, unless the program needs this order"
              : "A stream waited for work that it may not need, which only you can tell");
    case Cause::one_stream_two_roles:
      return between("Work that does not need each other shared a stream");
    case Cause::short_kernels:
      return with_call("The device went from one queued kernel to the next");
    case Cause::true_dependency:
      return between(sum.idle > sum.beside
                         ? "The device had only work that waited for another device, and only you "
                           "can tell whether it needs that"
                     : sum.waits.empty()
                         ? "Other streams had only work that needs what ran"
                         : "Other streams had only work that waited for what ran, and only you can "
                           "tell whether it needs that");
    case Cause::bandwidth_shared:
      return between("Work at once was as slow as one after the other");
    case Cause::unknown:
      break;
  }
  return fmt::format("The recording does not tell why: {}, {}, longest {} before {}.",
                     amount,
                     times,
                     duration_text(first.time.length()),
                     of_activity(first.held));
}

namespace {

/// Returns the wait of a stream, with its places, as ", by a wait at 1.2 ms for an event recorded
/// on stream 7 at 1.1 ms"; empty for none.
std::string wait_text(Program const& program, Index wait) {
  if (wait == kNone) {
    return {};
  }
  auto const& sync = program.recording().syncs[wait];
  auto text = fmt::format(", by a wait{} for an event",
                          sync.call == kNone ? std::string() : made_text(program, sync.call));
  if (sync.record_call != kNone) {
    text +=
        fmt::format(" recorded{}{}",
                    sync.record_stream == kNone ? std::string()
                                                : " on " + stream_text(program, sync.record_stream),
                    made_text(program, sync.record_call));
  }
  return text;
}

/// Returns the work of another device that idle time waited for; empty for none.
std::string other_device_text(Program const& program, Charge const& charge) {
  if (!charge.depends || charge.holder == kNone) {
    return {};
  }
  auto const& device = program.recording().devices[program.device_of(charge.holder)];
  return fmt::format(", which waited for {} of GPU {}{}",
                     activity_text(program, charge.holder),
                     device.number,
                     wait_text(program, charge.wait));
}

}  // namespace

std::string evidence_text(Program const& program, Cause cause, Charge const& charge) {
  auto const length = duration_text(charge.time.length());
  auto const held = activity_text(program, charge.held);
  if (charge.kind == TimeClass::idle) {
    return fmt::format("{} idle before {}{}{}{}",
                       length,
                       held,
                       place_of_activity(program, charge.held),
                       other_device_text(program, charge),
                       charge.call == kNone || is_usual_launch(program, cause, charge.call)
                           ? std::string()
                           : host_text(program, charge.call));
  }
  auto text = fmt::format("{}: ", length);
  if (charge.held == kNone || charge.holder == kNone || charge.held == charge.holder) {
    auto const running = charge.holder == kNone ? charge.held : charge.holder;
    text += fmt::format("{}{} ran alone{}",
                        activity_text(program, running),
                        place_of_activity(program, running),
                        charge.held == kNone ? " until the window ended" : "");
  } else {
    text += fmt::format("{}{} did not run beside {}",
                        held,
                        place_of_activity(program, charge.held),
                        activity_text(program, charge.holder));
  }
  if (cause == Cause::multiprocessors_full || cause == Cause::priority_cannot_help ||
      cause == Cause::collective_holds_sms) {
    text += sm_text(program, charge.holder, charge.held);
  }
  if (charge.call != kNone) {
    text += host_text(program, charge.call);
  }
  return text + wait_text(program, charge.wait);
}

}  // namespace msstream::overlap
