// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::support {

/// Prepares the process for writing files. SIGINT, SIGTERM and SIGHUP, where they end the process,
/// remove temporary files first; a closed pipe is an error of the write and ends nothing; and
/// standard streams that are closed are occupied, so that no file gets their numbers and what is
/// printed.
void prepare_process();

}  // namespace msstream::support
