// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::overlap::record {

/// Makes `on_signal` handle the signals that end a process, where the program has no handler and
/// does not ignore them. The program's own handlers stay: they end it in a way that the recorder
/// notices, or not at all.
void watch_signals(void (*on_signal)(int signal));

/// Ends the process by a signal, as if it had no handler. For any thread; safe in signal handlers.
void raise_by_default(int signal) noexcept;

/// Lets a signal do what it does without a handler. Safe in signal handlers.
void restore_default(int signal) noexcept;

}  // namespace msstream::overlap::record
