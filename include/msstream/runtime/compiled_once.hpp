// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>

/// Says that the library has the members of a class of the default runtime, so that files that use
/// it need not compile them again; src/step/compiled_classes.hpp has the list. Functions may still
/// be inlined. To be written where the class is whole; its thread_local members are constinit, for
/// g++ else looks for a function that makes them, which no file has. MSSTREAM_COMPILE_AGAIN, as a
/// definition of a target, is for code that must not link the library's: every file then compiles
/// what it uses.
#if MSSTREAM_COMPILE_AGAIN || MSSTREAM_TEST_SWITCHES
#define MSSTREAM_COMPILED_ONCE(...) static_assert(true)
#else
#define MSSTREAM_COMPILED_ONCE(...) extern template __VA_ARGS__
#endif
