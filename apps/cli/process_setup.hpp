// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::cli {

/// Prepares the process for writing files. If SIGINT, SIGTERM or SIGHUP would end the process,
/// temporary files are removed first. A closed pipe is an error of the write and does not end the
/// process. Closed standard streams are occupied, so that no other file gets their numbers and the
/// text printed to them.
void prepare_process();

}  // namespace msstream::cli
