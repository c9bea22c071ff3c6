// SPDX-License-Identifier: Apache-2.0
#include "data/text/key_words.hpp"

#include <msstream/data/detail/counter_random.hpp>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace msstream::data::detail {

#ifdef __x86_64__
namespace {

/// The numbers of buckets for which finish_eight() is exact.
constexpr std::uint64_t kLeastBuckets = std::uint64_t{1} << 14U;
constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 61U;

/// Returns mix64() of eight words.
[[gnu::target("avx512f,avx512dq")]] __m512i mixed(__m512i words) {
  auto const first = _mm512_set1_epi64(static_cast<std::int64_t>(0xFF51AFD7ED558CCDULL));
  auto const second = _mm512_set1_epi64(static_cast<std::int64_t>(0xC4CEB9FE1A85EC53ULL));
  words = _mm512_xor_si512(words, _mm512_srli_epi64(words, 33));
  words = _mm512_mullo_epi64(words, first);
  words = _mm512_xor_si512(words, _mm512_srli_epi64(words, 33));
  words = _mm512_mullo_epi64(words, second);
  return _mm512_xor_si512(words, _mm512_srli_epi64(words, 33));
}

/// Replaces the words eight at a time, and returns how many. The quotient is computed in float64:
/// four roundings, of less than 2^-53 each, leave an error below 2^13 / buckets, and so below 1/2,
/// so that the remainder is off by at most one divisor.
[[gnu::target("avx512f,avx512dq")]] std::size_t finish_eight(std::uint64_t* words,
                                                             std::size_t count,
                                                             std::uint64_t buckets) {
  auto const divisor = _mm512_set1_epi64(static_cast<std::int64_t>(buckets));
  auto const inverse = _mm512_set1_pd(buckets != 0 ? 1.0 / static_cast<double>(buckets) : 0.0);
  std::size_t done = 0;
  for (; done + 8 <= count; done += 8) {
    auto key = mixed(_mm512_loadu_si512(words + done));
    if (buckets != 0) {
      auto const quotient = _mm512_cvttpd_epu64(_mm512_mul_pd(_mm512_cvtepu64_pd(key), inverse));
      key = _mm512_sub_epi64(key, _mm512_mullo_epi64(quotient, divisor));
      // A remainder that is too small is negative, and the larger of both as an unsigned number.
      key = _mm512_min_epu64(key, _mm512_add_epi64(key, divisor));
      key = _mm512_min_epu64(key, _mm512_sub_epi64(key, divisor));
    }
    _mm512_storeu_si512(words + done, key);
  }
  return done;
}

}  // namespace
#endif

void finish_keys_one_by_one(std::uint64_t* words, std::size_t count, Remainder const* row_of) {
  if (row_of == nullptr) {
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = mix64(words[i]);
    }
    return;
  }
  auto const remainder = *row_of;
  for (std::size_t i = 0; i < count; ++i) {
    words[i] = remainder(mix64(words[i]));
  }
}

void finish_keys(std::uint64_t* words, std::size_t count, Remainder const* row_of) {
  std::size_t done = 0;
#ifdef __x86_64__
  auto const buckets = row_of != nullptr ? row_of->divisor() : 0;
  bool const is_exact = buckets == 0 || (buckets >= kLeastBuckets && buckets <= kMostBuckets);
  if (is_exact && __builtin_cpu_supports("avx512dq") != 0) {
    done = finish_eight(words, count, buckets);
  }
#endif
  finish_keys_one_by_one(words + done, count - done, row_of);
}

}  // namespace msstream::data::detail
