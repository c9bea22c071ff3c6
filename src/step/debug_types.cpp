// SPDX-License-Identifier: Apache-2.0
// The types of the engine, for the printers of tools/gdb. The build compiles this file alone with
// debug information, so that gdb knows the types in every build. The file has no code.
#include "memory/device/device_state.hpp"
#include "step/tape_state.hpp"
#include "stream/stream_pool.hpp"
#include "stream/stream_scope.hpp"

#include <msstream/base/detail/thread_guards.hpp>
#include <msstream/runtime/detail/backend.hpp>

namespace msstream::detail {

/// Refers to each type that a printer reads and no public header defines.
struct DebugTypes {
  Backend* backend = nullptr;
  DeviceState* device = nullptr;
  StreamPool* pool = nullptr;
  TapeState* tape = nullptr;
  ThreadGuards<OpenScope>::Entry* scope = nullptr;
};

}  // namespace msstream::detail

/// Names the file in a program's link command: `-Wl,--undefined=msstream_debug_types`.
extern "C" msstream::detail::DebugTypes msstream_debug_types;
msstream::detail::DebugTypes msstream_debug_types;
