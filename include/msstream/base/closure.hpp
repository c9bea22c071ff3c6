// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace msstream {

/// A move-only `void()` callable that stores callables of up to 256 bytes without allocating.
class Closure {
 public:
  /// Takes a function object, and keeps it inside if it has at most 256 bytes and its move does not
  /// throw.
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Closure> &&
             std::is_invocable_v<std::decay_t<F>&>)
  Closure(F&& function) {  // NOLINT(google-explicit-constructor): a lambda is a closure
    using Stored = std::decay_t<F>;
    if constexpr (fits_inline<Stored>) {
      new (storage_) Stored(std::forward<F>(function));
      operations_ = &inline_operations<Stored>;
    } else {
      new (storage_) Stored*(new Stored(std::forward<F>(function)));
      operations_ = &heap_operations<Stored>;
    }
  }

  Closure(Closure&& other) noexcept : operations_(other.operations_) {
    operations_->relocate(storage_, other.storage_);
    other.operations_ = &empty_operations;
  }
  Closure& operator=(Closure&& other) noexcept {
    if (this != &other) {
      operations_->destroy(storage_);
      operations_ = other.operations_;
      operations_->relocate(storage_, other.storage_);
      other.operations_ = &empty_operations;
    }
    return *this;
  }
  Closure(Closure const&) = delete;
  Closure& operator=(Closure const&) = delete;
  ~Closure() { operations_->destroy(storage_); }

  void operator()() { operations_->call(storage_); }  ///< Calls the function.

 private:
  static constexpr std::size_t kInlineBytes = 256;

  struct Operations {
    void (*call)(void*);
    void (*relocate)(void* to, void* from) noexcept;
    void (*destroy)(void*) noexcept;
  };

  template <class F>
  static constexpr bool fits_inline =
      sizeof(F) <= kInlineBytes &&
      alignof(F) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<F>;

  template <class F>
  static constexpr Operations inline_operations{
      [](void* self) { (*static_cast<F*>(self))(); },
      [](void* to, void* from) noexcept {
        new (to) F(std::move(*static_cast<F*>(from)));
        static_cast<F*>(from)->~F();
      },
      [](void* self) noexcept { static_cast<F*>(self)->~F(); }};

  template <class F>
  static constexpr Operations heap_operations{
      [](void* self) { (**static_cast<F**>(self))(); },
      [](void* to, void* from) noexcept { new (to) F*(*static_cast<F**>(from)); },
      [](void* self) noexcept { delete *static_cast<F**>(self); }};

  static constexpr Operations empty_operations{
      [](void*) {}, [](void*, void*) noexcept {}, [](void*) noexcept {}};

  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
  Operations const* operations_;
};

}  // namespace msstream
