// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/read/byte_source.hpp"

// RapidJSON adds offsets to the null pointer of an empty stack, which the sanitizer of clang
// reports although nothing comes of it.
#ifdef __clang__
#pragma clang attribute push(__attribute__((no_sanitize("pointer-overflow"))), apply_to = function)
#endif
#include <rapidjson/reader.h>
#ifdef __clang__
#pragma clang attribute pop
#endif

#include <cstddef>
#include <cstring>
#include <string_view>

namespace msstream::overlap {

/// The bytes of a source as a stream of RapidJSON. Copies share their source: RapidJSON works on a
/// copy, whose place the compiler keeps in registers, and assigns it back.
class JsonStream {
 public:
  using Ch = char;

  /// The state that all copies of a stream share.
  struct Input {
    explicit Input(ByteSource& bytes) : source(&bytes) {}

    ByteSource* source;
    char const* begin = nullptr;  ///< of the piece
    std::size_t offset = 0;       ///< of the piece in the whole
    bool is_at_end = false;
  };

  explicit JsonStream(Input& input) : input_(&input) { next_piece(); }

  [[nodiscard]] char Peek() const { return *at_; }
  char Take() {
    char const c = *at_;
    if (++at_ == end_) {
      next_piece();
    }
    return c;
  }
  /// Passes characters of a string that stand for themselves, to the last one of the piece at most,
  /// and returns them.
  std::string_view take_plain() {
    auto const* const begin = at_;
    auto const is_plain = [](char c) {
      return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20;
    };
    while (end_ - at_ > 1 && is_plain(*at_)) {
      ++at_;
    }
    return {begin, static_cast<std::size_t>(at_ - begin)};
  }
  /// Passes whitespace.
  void skip_whitespace() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') {
      Take();
    }
  }
  [[nodiscard]] std::size_t Tell() const {
    return input_->offset + static_cast<std::size_t>(at_ - input_->begin);
  }

  // RapidJSON requires these of streams, but calls them only for streams that are written.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  std::size_t PutEnd(char*) { return 0; }

 private:
  [[gnu::noinline]] void next_piece() {
    if (input_->begin != nullptr && !input_->is_at_end) {
      input_->offset += static_cast<std::size_t>(end_ - input_->begin);
    }
    auto const piece = input_->is_at_end ? std::string_view() : input_->source->next();
    if (piece.empty()) {
      // The end of a stream is a NUL, which is never passed.
      static constexpr char kEnd[2] = {};
      input_->is_at_end = true;
      at_ = kEnd;
      end_ = kEnd + 1;
    } else {
      at_ = piece.data();
      end_ = piece.data() + piece.size();
    }
    input_->begin = at_;
  }

  Input* input_;
  char const* at_ = nullptr;
  char const* end_ = nullptr;
};

}  // namespace msstream::overlap

template <>
struct rapidjson::StreamTraits<msstream::overlap::JsonStream> {
  enum { copyOptimization = 1 };
};

// The functions of RapidJSON for all streams copy the stream to and fro at each token, and strings
// byte by byte.

template <>
inline void rapidjson::SkipWhitespace(msstream::overlap::JsonStream& stream) {
  stream.skip_whitespace();
}

template <>
template <>
inline void rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>>::ScanCopyUnescapedString(
    msstream::overlap::JsonStream& stream, StackStream<char>& out) {
  auto const plain = stream.take_plain();
  std::memcpy(out.Push(static_cast<SizeType>(plain.size())), plain.data(), plain.size());
}

namespace msstream::overlap {

/// The numbers stay texts, and NaN, infinities and commas at the end of lists are accepted.
inline constexpr unsigned kTraceJson = rapidjson::kParseNumbersAsStringsFlag |
                                       rapidjson::kParseNanAndInfFlag |
                                       rapidjson::kParseTrailingCommasFlag;

}  // namespace msstream::overlap

/// As RapidJSON's own, but half a pair of surrogates becomes U+FFFD: one name that was cut in the
/// middle of a character is no reason to refuse a trace.
template <>
template <>
inline void rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>>::
    ParseStringToStream<msstream::overlap::kTraceJson, rapidjson::UTF8<>, rapidjson::UTF8<>>(
        msstream::overlap::JsonStream& stream, StackStream<char>& out) {
  constexpr unsigned replacement = 0xFFFD;
  constexpr std::string_view escapes = "\"\\/bfnrt";
  constexpr std::string_view meant = "\"\\/\b\f\n\r\t";
  unsigned high = 0;  // the first half of a pair; 0 if there is none
  auto const end_pair = [&] {
    if (high != 0) {
      UTF8<>::Encode(out, replacement);
      high = 0;
    }
  };
  while (true) {
    auto const offset = stream.Tell();
    char const c = stream.Peek();
    if (c == '\\') {
      stream.Take();
      char const escaped = stream.Take();
      if (escaped == 'u') {
        unsigned const code = ParseHex4(stream, offset);
        if (HasParseError()) {
          return;
        }
        bool const is_low = code >= 0xDC00 && code <= 0xDFFF;
        if (is_low && high != 0) {
          UTF8<>::Encode(out, (((high - 0xD800) << 10U) | (code - 0xDC00)) + 0x10000);
          high = 0;
          continue;
        }
        end_pair();
        if (code >= 0xD800 && code <= 0xDBFF) {
          high = code;
        } else {
          UTF8<>::Encode(out, is_low ? replacement : code);
        }
        continue;
      }
      end_pair();
      auto const place = escapes.find(escaped);
      if (escaped == '\0' || place == std::string_view::npos) {
        SetParseError(kParseErrorStringEscapeInvalid, offset);
        return;
      }
      out.Put(meant[place]);
      continue;
    }
    end_pair();
    if (c == '"') {
      stream.Take();
      out.Put('\0');
      return;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      SetParseError(c == '\0' ? kParseErrorStringMissQuotationMark : kParseErrorStringEscapeInvalid,
                    offset);
      return;
    }
    ScanCopyUnescapedString(stream, out);
    if (char const last = stream.Peek();
        last != '"' && last != '\\' && static_cast<unsigned char>(last) >= 0x20) {
      out.Put(stream.Take());  // the last character of a piece of the file
    }
  }
}
