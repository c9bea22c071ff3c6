// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/ledger.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/report.hpp"
#include "overlap/recording/duration_text.hpp"

#include <cstdint>
#include <string>

/// The texts of findings.
namespace msstream::overlap {

/// In whose terms to advise.
enum class Framework : std::uint8_t { cuda, pytorch, msstream };

/// Returns the framework of a program, by the ranges that it recorded.
[[nodiscard]] Framework framework_of(Recording const& recording);

/// Returns an activity's name and stream, such as "gemm on stream 7".
[[nodiscard]] std::string activity_text(Program const& program, Index activity);

/// Returns what the gain of a fix depends on, of causes whose predictions are ranges.
[[nodiscard]] std::string range_text(Cause cause);
/// Returns the same for kernels that leave room for each other.
[[nodiscard]] std::string room_text();
/// Returns why a fix of the host gains at most what was lost, if the waits of streams are missing.
[[nodiscard]] std::string unknown_waits_text();
/// Says in which class the accounting has time of a finding that it does not charge to the cause;
/// empty if there is none. `steps` is idle time of a chain between one activity and the next.
[[nodiscard]] std::string class_text(Cause cause, CauseSum const& sum, Ns steps);
/// Returns the window without recording, such as `1.20 ms to 1.40 ms`.
[[nodiscard]] std::string unrecorded_text(RecordingCost const& cost);
/// Returns what was lost to a cause in one sentence.
[[nodiscard]] std::string summary(Program const& program,
                                  Cause cause,
                                  CauseSum const& sum,
                                  Interval window);
/// Returns one occurrence as a sentence.
[[nodiscard]] std::string evidence_text(Program const& program, Cause cause, Charge const& charge);
/// Returns what to change, in the terms of a framework.
[[nodiscard]] std::string advice(Cause cause, Framework framework);
/// Returns what to change if a device waits for work of others.
[[nodiscard]] std::string other_device_advice();
/// Returns what to change if kernels fill the device and gain nothing from each other.
[[nodiscard]] std::string full_advice();
/// Returns what to change in addition if memory of a pool needed the driver.
[[nodiscard]] std::string pool_advice();
/// Returns what to change if the launches that take the time are those of graphs.
[[nodiscard]] std::string graph_launch_advice(Framework framework);
/// Returns what else it may be if the host does something else most of the time.
[[nodiscard]] std::string idle_advice();
/// Returns what to record to explain what a recording does not tell; empty for nothing.
[[nodiscard]] std::string record_text(Missing missing, Recording const& recording);

}  // namespace msstream::overlap
