// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/replay.hpp"

#include <optional>

namespace msstream::overlap {

std::optional<Fix> fix_of(Program const& program, Cause cause, CauseSum const& sum) {
  Fix fix;
  auto const free_calls = [&] { fix.calls.insert(sum.calls.begin(), sum.calls.end()); };
  switch (cause) {
    case Cause::recording_overhead:
    case Cause::lazy_loading:
    case Cause::driver_allocation:
    case Cause::host_synchronization:
    case Cause::queue_is_full:
      free_calls();
      break;
    case Cause::pageable_copy:
      free_calls();
      for (auto const* list : {&sum.held, &sum.holders}) {
        for (auto const i : *list) {
          if (is_pageable(program.activity(i))) {
            fix.pinned.insert(i);
          }
        }
      }
      for (auto const call : sum.calls) {
        for (auto const i : program.issued_by(call)) {
          if (is_pageable(program.activity(i))) {
            fix.pinned.insert(i);
          }
        }
      }
      break;
    case Cause::launch_bound:
      fix.graph = true;
      break;
    case Cause::host_busy:
      fix.no_gaps = true;
      free_calls();
      break;
    case Cause::legacy_stream:
      fix.no_legacy_stream = true;
      break;
    case Cause::peer_skew:
      fix.no_skew = true;
      break;
    case Cause::copy_engine:
      fix.many_engines = true;
      break;
    case Cause::hardware_queue:
      fix.no_channels = true;
      break;
    case Cause::collective_holds_sms:
    case Cause::priority_cannot_help:
    case Cause::multiprocessors_full:
      fix.shares_sms = true;
      break;
    case Cause::false_dependency:
      fix.waits.insert(sum.waits.begin(), sum.waits.end());
      break;
    case Cause::one_stream_two_roles:
      for (auto const moved : sum.held) {
        auto const before = program.previous(moved);
        // A download is moved itself; otherwise what follows it would be.
        bool const after_download = before != kNone &&
                                    program.activity(before).kind == ActivityKind::copy &&
                                    program.activity(before).direction == CopyDirection::d2h;
        fix.moved.insert(after_download ? before : moved);
      }
      break;
    case Cause::collective_order:
    case Cause::true_dependency:
    case Cause::bandwidth_shared:
    case Cause::unknown:
      return std::nullopt;
  }
  return fix;
}

}  // namespace msstream::overlap
