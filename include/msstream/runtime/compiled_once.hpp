// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>

/// Declares that the library contains the members of a class of the default runtime, so that files
/// that use the class need not compile them again; src/step/compiled_classes.hpp has the list of
/// classes. Functions may still be inlined. Must be written where the class is complete. The
/// class's thread_local members are constinit, because g++ otherwise looks for a function that
/// initialises them, which no file has. A target whose code must not link the library's members
/// defines MSSTREAM_COMPILE_AGAIN: every file then compiles what it uses.
#if MSSTREAM_COMPILE_AGAIN || MSSTREAM_TEST_SWITCHES
#define MSSTREAM_COMPILED_ONCE(...) static_assert(true)
#else
#define MSSTREAM_COMPILED_ONCE(...) extern template __VA_ARGS__
#endif
