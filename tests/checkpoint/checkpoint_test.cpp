// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "memory/runtimes.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using checkpoint::Tensors;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A file that Python's `safetensors` 0.8 has written, of:
///
///     {"w": float32 [2, 3] of 0, 0.5 … 2.5, "ids": int64 [3] of 1, -2, 2**40,
///      "flags": bool [3], "half": float16 [] of 1.5, "none": float32 [0, 3],
///      "bytes": uint8 [2] of 7, 255, "i": int32 [1] of -1},
///     metadata={"step": "12", "note": "grüße"}
constexpr std::string_view kPythonHeader =
    R"({"__metadata__":{"note":"grüße","step":"12"},)"
    R"("ids":{"dtype":"I64","shape":[3],"data_offsets":[0,24]},)"
    R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[24,24]},)"
    R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]},)"
    R"("i":{"dtype":"I32","shape":[1],"data_offsets":[48,52]},)"
    R"("half":{"dtype":"F16","shape":[],"data_offsets":[52,54]},)"
    R"("bytes":{"dtype":"U8","shape":[2],"data_offsets":[54,56]},)"
    R"("flags":{"dtype":"BOOL","shape":[3],"data_offsets":[56,59]}}      )";
constexpr std::string_view kPythonData(
    "\x01\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\x01\0\0"  // ids
    "\0\0\0\0\0\0\0?\0\0\x80?\0\0\xc0?\0\0\0@\0\0 @"                        // w
    "\xff\xff\xff\xff\0>\x07\xff\x01\0\x01",                                // i half bytes flags
    59);

std::string python_file() {
  std::string file(8, '\0');
  std::uint64_t const length = kPythonHeader.size();
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(kPythonHeader).append(kPythonData);
}

/// Returns elements whose bytes differ from each other and from poison.
template <Element T>
std::vector<T> distinct(std::int64_t count, unsigned seed) {
  std::vector<T> elements(static_cast<std::size_t>(count));
  auto const bytes = std::as_writable_bytes(std::span(elements));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(1 + (i * 7 + i / 251 + seed) % 250);
  }
  return elements;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class R>
class Checkpoint : public RuntimeTest<R> {
 protected:
  template <Element T>
  static Tensor<T, R> poisoned(Device<R> const& device, Shape const& shape) {
    Tensor<T, R> tensor(device, shape);
    fill_bytes(tensor, 0xFF);
    return tensor;
  }

  TemporaryFolder folder_;
};
TYPED_TEST_SUITE(Checkpoint, Runtimes, RuntimeNames);

TYPED_TEST(Checkpoint, every_type_and_size_comes_back_as_it_was) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "model.safetensors";
  auto const comes_back = [&]<Element T>(T) {
    std::vector<std::int64_t> const sizes{0, 1, 31, 32, 33, 127, 4097};
    Tensors saved;
    Tensors loaded;
    std::vector<std::pair<std::vector<T>, Tensor<T, TypeParam>>> expected;
    for (auto const size : sizes) {
      auto const elements = distinct<T>(size, static_cast<unsigned>(size));
      auto const name = "t" + std::to_string(size);
      saved.add(name, to_device(device, elements, {size}));
      expected.emplace_back(elements, this->template poisoned<T>(device, {size}));
      loaded.add(name, expected.back().second);
    }
    checkpoint::save(path, saved);
    EXPECT_EQ(checkpoint::load(path, loaded).tensors.size(), sizes.size());
    for (auto const& [elements, tensor] : expected) {
      EXPECT_TRUE(same_bits(to_host(tensor), elements))
          << name_of(dtype_of<T>) << " " << tensor.shape();
    }
  };
  comes_back(float{});
  comes_back(float16{});
  comes_back(bfloat16{});
  comes_back(std::int32_t{});
  comes_back(std::int64_t{});
  comes_back(std::uint8_t{});
}

TYPED_TEST(Checkpoint, shapes_of_every_rank_come_back) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "x";
  std::vector<Shape> const shapes{{}, {5}, {2, 3}, {2, 3, 4}, {2, 1, 3, 5}, {0, 7}};
  Tensors saved;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    saved.add("t" + std::to_string(i), zeros<float>(device, shapes[i]));
  }
  checkpoint::save(path, saved);
  checkpoint::SafetensorsFile const file(path);
  EXPECT_THAT(file.tensor("t0").shape, IsEmpty());
  EXPECT_THAT(file.tensor("t4").shape, ElementsAre(2, 1, 3, 5));
  EXPECT_EQ(checkpoint::load(path, saved).tensors.size(), shapes.size());
}

TYPED_TEST(Checkpoint, tensors_larger_than_a_chunk_come_back) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "x";
  std::int64_t const count = (std::int64_t{40} << 20) + 13;  // two chunks of 16 MiB, and a rest
  auto const small = distinct<std::int32_t>(3, 1);
  auto const large = distinct<std::uint8_t>(count, 2);
  Tensors const saved(
      [&](auto const& visit) { visit("small", to_device(device, small, {3})); },
      [&](auto const& visit) { visit("large", to_device(device, large, {count})); });
  checkpoint::save(path, saved);
  auto const small_loaded = this->template poisoned<std::int32_t>(device, {3});
  auto const large_loaded = this->template poisoned<std::uint8_t>(device, {count});
  checkpoint::load(path, Tensors().add("small", small_loaded).add("large", large_loaded));
  EXPECT_TRUE(same_bits(to_host(small_loaded), small));
  EXPECT_TRUE(same_bits(to_host(large_loaded), large));
}

TYPED_TEST(Checkpoint, has_the_work_that_was_issued_before_and_loads_before_what_follows) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 2});
  auto const path = this->folder_ / "x";
  auto const weight = zeros<std::uint8_t>(device, {1000});
  Tensors const tensors([&](auto const& visit) { visit("w", weight); });
  StreamScope const scope(pool[1]);
  fill_bytes(weight, 1);
  checkpoint::save(path, tensors);
  fill_bytes(weight, 2);
  checkpoint::load(path, tensors);
  auto const copied = zeros<std::uint8_t>(device, {1000});
  {
    StreamScope const other(pool[0]);
    copy(copied, weight);
    fill_bytes(weight, 3);
  }
  EXPECT_THAT(to_host(copied), ::testing::Each(1));
  EXPECT_THAT(to_host(weight), ::testing::Each(3));
}

TYPED_TEST(Checkpoint, texts_step_and_metric_come_back) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "x";
  Tensors const tensors([&](auto const& visit) { visit("w", zeros<float>(device, {2})); });
  checkpoint::Metadata const texts{{"reader", R"({"row": 12, "file": "a\n"})"}, {"größe", "ß"}};
  checkpoint::save(path, tensors, {.step = 1'000'000, .metadata = texts, .metric = 0.1});
  auto const loaded = checkpoint::load(path, tensors);
  EXPECT_EQ(loaded.step, 1'000'000);
  EXPECT_EQ(loaded.metadata, texts);
  EXPECT_EQ(loaded.metric, 0.1) << "the same bits";
  checkpoint::save(path, tensors);
  auto const plain = checkpoint::load(path, tensors);
  EXPECT_EQ(plain.step, 0);
  EXPECT_EQ(plain.metric, std::nullopt);
  EXPECT_TRUE(plain.metadata.empty());
}

TYPED_TEST(Checkpoint, equal_tensors_give_equal_bytes_in_any_order) {
  Device<TypeParam> const device;
  auto const a = to_device(device, std::vector<float>{1, 2}, {2});
  auto const b = to_device(device, std::vector<std::uint8_t>{3}, {1});
  checkpoint::save(this->folder_ / "x", Tensors().add("a", a).add("b", b), {.step = 7});
  checkpoint::save(this->folder_ / "y", Tensors().add("b", b).add("a", a), {.step = 7});
  EXPECT_EQ(read_all(this->folder_ / "x"), read_all(this->folder_ / "y"));
}

TYPED_TEST(Checkpoint, reads_what_python_has_written) {
  Device<TypeParam> const device;
  auto const path = this->folder_.write("python", python_file());
  auto const w = this->template poisoned<float>(device, {2, 3});
  auto const ids = this->template poisoned<std::int64_t>(device, {3});
  auto const half = this->template poisoned<float16>(device, {});
  auto const bytes = this->template poisoned<std::uint8_t>(device, {2});
  auto const i = this->template poisoned<std::int32_t>(device, {1});
  auto const none = this->template poisoned<float>(device, {0, 3});
  Tensors tensors;
  tensors.add("w", w).add("ids", ids).add("half", half).add("bytes", bytes).add("i", i);
  tensors.add("none", none);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { checkpoint::load(path, tensors); }),
              HasSubstr("only in the file (LoadOptions::allow_unexpected ignores them): flags"));
  auto const loaded = checkpoint::load(path, tensors, {.except = {"flags"}});
  EXPECT_EQ(loaded.step, 12);
  EXPECT_EQ(loaded.metadata, (checkpoint::Metadata{{"note", "grüße"}}));
  EXPECT_THAT(to_host(w), ElementsAre(0, 0.5F, 1, 1.5F, 2, 2.5F));
  EXPECT_THAT(to_host(ids), ElementsAre(1, -2, std::int64_t{1} << 40));
  EXPECT_EQ(to_float(to_host(half)[0]), 1.5F);
  EXPECT_THAT(to_host(bytes), ElementsAre(7, 255));
  EXPECT_THAT(to_host(i), ElementsAre(-1));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                checkpoint::load(
                    path,
                    Tensors().add("flags", Tensor<std::uint8_t, TypeParam>(device, {3})),
                    {.only = {"flags"}});
              }),
              HasSubstr("flags (expected U8 [3], found BOOL [3])"));
}

TYPED_TEST(Checkpoint, of_another_model_is_refused_by_what_differs_and_changes_nothing) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "x";
  checkpoint::save(path,
                   Tensors()
                       .add("fits", zeros<float>(device, {4}))
                       .add("shape", zeros<float>(device, {2, 3}))
                       .add("type", zeros<float>(device, {3}))
                       .add("other", zeros<float>(device, {5})));
  auto const fits = this->template poisoned<std::uint8_t>(device, {16});
  auto const kept = to_device(device, std::vector<float>{1, 2, 3, 4}, {4});
  Tensors tensors;
  tensors.add("fits", kept)
      .add("shape", Tensor<float, TypeParam>(device, {3, 2}))
      .add("type", Tensor<std::int32_t, TypeParam>(device, {3}))
      .add("mine", Tensor<float, TypeParam>(device, {5}));
  EXPECT_THAT(
      message_of<std::invalid_argument>(
          [&] { checkpoint::load(path, tensors, {.except = {"nothing/*"}}); }),
      AllOf(HasSubstr(path.string()),
            HasSubstr("nothing was loaded"),
            HasSubstr("patterns that match no tensor: nothing/*"),
            HasSubstr("missing in the file: mine"),
            HasSubstr("only in the file (LoadOptions::allow_unexpected ignores them): other"),
            HasSubstr("shape (expected F32 [3, 2], found F32 [2, 3])"),
            HasSubstr("type (expected I32 [3], found F32 [3])"),
            Not(HasSubstr("fits ("))));
  EXPECT_THAT(to_host(kept), ElementsAre(1, 2, 3, 4));
}

TYPED_TEST(Checkpoint, parts_are_loaded_by_pattern) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "x";
  auto const full = [&](float value) { return to_device(device, std::vector<float>{value}, {1}); };
  checkpoint::save(path,
                   Tensors().add("user/a", full(1)).add("user/b", full(2)).add("top", full(3)));
  auto const a = full(-1);
  auto const b = full(-2);
  auto const item = full(-3);
  Tensors const tensors([&](auto const& visit) {
    visit("user/a", a);
    visit("user/b", b);
    visit("item/a", item);
  });
  auto const some = checkpoint::load(path, tensors, {.only = {"user/*"}, .except = {"*/b"}});
  EXPECT_THAT(some.tensors, ElementsAre("user/a"));
  EXPECT_THAT(to_host(a), ElementsAre(1));
  EXPECT_THAT(to_host(b), ElementsAre(-2));
  EXPECT_THAT(to_host(item), ElementsAre(-3));
  auto const rest =
      checkpoint::load(path, tensors, {.allow_missing = true, .allow_unexpected = true});
  EXPECT_THAT(rest.tensors, ElementsAre("user/a", "user/b"));
  EXPECT_THAT(rest.missing, ElementsAre("item/a"));
  EXPECT_THAT(rest.unexpected, ElementsAre("top"));
  EXPECT_THAT(to_host(b), ElementsAre(2));
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { checkpoint::load(path, tensors, {.only = {"uesr/*"}}); }),
              HasSubstr("uesr/*"));
}

TYPED_TEST(Checkpoint, what_cannot_be_saved_is_refused_and_leaves_the_earlier_file) {
  Device<TypeParam> const device;
  auto const path = this->folder_ / "x";
  Tensors const tensors([&](auto const& visit) { visit("w", zeros<float>(device, {2})); });
  checkpoint::save(path, tensors);
  auto const before = read_all(path);
  auto const refused = [&](checkpoint::Header const& header, std::string const& message) {
    EXPECT_THAT(message_of<std::invalid_argument>([&] { checkpoint::save(path, tensors, header); }),
                HasSubstr(message));
  };
  refused({.step = -1}, "the step is -1; expected at least 0");
  refused({.metadata = {{"step", "3"}}}, "the metadata name 'step' is the library's own");
  refused({.metadata = {{"metric", "3"}}}, "'metric'");
  refused({.metadata = {{"sequence", "3"}}}, "'sequence'");
  refused({.metadata = {{"best", "lowest"}}}, "'best'");
  refused({.metadata = {{"text", "\xff"}}}, "the metadata 'text' is not UTF-8");
  refused({.metadata = {{"text", std::string(100'000'001, 'x')}}}, "expected at most 100000000");
  EXPECT_THROW(checkpoint::save(this->folder_ / "none" / "x", tensors), std::system_error);
  EXPECT_EQ(read_all(path), before);
  EXPECT_THAT(this->folder_.names(), ElementsAre("x"));

  Tensors list;
  list.add("w", zeros<float>(device, {2}));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { list.add("w", zeros<float>(device, {2})); }),
              HasSubstr("two tensors are named 'w'"));
  EXPECT_THROW(list.add("__metadata__", zeros<float>(device, {2})), std::invalid_argument);
  EXPECT_THROW(list.add("\xff", zeros<float>(device, {2})), std::invalid_argument);
  Device<TypeParam> const other;
  EXPECT_THAT(message_of<std::invalid_argument>([&] { list.add("v", zeros<float>(other, {2})); }),
              HasSubstr("tensor 'v' is on another device than 'w'"));
  EXPECT_EQ(list.count(), 1U);
  EXPECT_EQ(list.bytes(), 8U);
}

TYPED_TEST(Checkpoint, the_texts_of_a_file_are_checked) {
  Device<TypeParam> const device;
  Tensors const none;
  auto const with = [&](std::string const& metadata) {
    std::string header = R"({"__metadata__":)" + metadata + "}";
    std::string file(8, '\0');
    file[0] = static_cast<char>(header.size());
    auto const path = this->folder_.write("x", file + header);
    return message_of<std::invalid_argument>([&] { checkpoint::load(path, none); });
  };
  EXPECT_THAT(with(R"({"step":"-1"})"),
              HasSubstr("'step' is '-1'; expected a number of at least 0"));
  EXPECT_THAT(with(R"({"step":"1x"})"), HasSubstr("'step' is '1x'"));
  EXPECT_THAT(with(R"({"metric":""})"), HasSubstr("'metric' is ''; expected a number"));
}

TYPED_TEST(Checkpoint, is_refused_in_a_capture) {
  Device<TypeParam> const device;
  StreamPool pool(device, {.groups = 1});
  auto const weight = zeros<float>(device, {2});
  Tensors const tensors([&](auto const& visit) { visit("w", weight); });
  StreamScope const scope(pool[0]);
  auto const path = this->folder_ / "x";
  checkpoint::save(path, tensors);
  auto const captured = [&](auto const& call) {
    return message_of<std::logic_error>([&] {
      CapturedStep<TypeParam> const step(device, [&] {
        fill_bytes(weight, 1);
        call();
      });
    });
  };
  EXPECT_THAT(captured([&] { checkpoint::save(path, tensors); }),
              HasSubstr("checkpoint::save inside a capture"));
  EXPECT_THAT(captured([&] { checkpoint::load(path, tensors); }),
              HasSubstr("checkpoint::load inside a capture"));
}

}  // namespace
}  // namespace msstream::testing
