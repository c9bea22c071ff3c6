// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fake_cuda {

/// Sets the number of hardware queues that the streams share which get kernels of msstream-doctor
/// from now on, and forgets the streams before.
void set_hardware_queues(int count);

}  // namespace fake_cuda
