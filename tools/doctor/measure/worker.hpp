// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace msstream::doctor {

/// Runs as a process that loads a device, for --processes. `arguments` are the number of the GPU,
/// or -1 for the host runtime; the number of groups, each with a thread; how many ms a load takes;
/// and when the process was started, in ns of the steady clock. Writes lines to the standard
/// output:
/// - before each load, `ready MS` once all is warm: how long it took from the start of the process
/// to
///   the end of its first operation;
/// - after each load, which a byte from the standard input begins, `RATE P50 P99`: operations a
///   second, and the µs of a batch.
/// The first load are operations that do nothing, the second ones kernels of kKernelOfLoad.
/// Ends early if the standard input ends. Returns the exit status.
int worker(std::vector<std::string> const& arguments);

}  // namespace msstream::doctor
