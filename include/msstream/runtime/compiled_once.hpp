// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>

/// Declares that the library contains the members of a class of the default runtime, so that files
/// that use the class need not compile them again; src/step/compiled_classes.hpp has the list of
/// classes. Functions may still be inlined. Must be written where the class is complete. The class
/// must have no thread_local members: g++ would call their initialiser, which exists in no file, so
/// that the program would call address 0. constinit prevents this, but nvcc drops constinit from
/// members of templates. A thread_local variable of a function needs no initialiser. A target whose
/// code must not link the library's members defines MSSTREAM_COMPILE_AGAIN: every file then
/// compiles what it uses.
#if MSSTREAM_COMPILE_AGAIN || MSSTREAM_TEST_SWITCHES
#define MSSTREAM_COMPILED_ONCE(...) static_assert(true)
#else
#define MSSTREAM_COMPILED_ONCE(...) extern template __VA_ARGS__
#endif
