// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::doctor {

/// Returns the instruction sets beyond the processor family's baseline that the kernels for the
/// host use, as /proc/cpuinfo names them. The list ends with null. Runs on every processor.
[[nodiscard]] char const* const* compiled_instruction_sets() noexcept;
/// Returns whether the build has MSSTREAM_NATIVE_ARCH.
[[nodiscard]] bool is_compiled_for_native() noexcept;

}  // namespace msstream::doctor
