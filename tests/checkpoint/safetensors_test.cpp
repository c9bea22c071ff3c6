// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/base/format.hpp>
#include <msstream/checkpoint/safetensors.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <system_error>

namespace msstream::checkpoint {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::message_of;
using testing::read_all;
using testing::TemporaryFolder;

/// Returns the bytes of a safetensors file with the given JSON header and data.
std::string file_bytes(std::string_view header, std::string_view data) {
  std::uint64_t const length = header.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out.append(header).append(data);
}

class SafetensorsTest : public ::testing::Test {
 protected:
  std::string failure(std::string_view bytes) const {
    auto const path = folder_.write("bad", bytes);
    return message_of<std::invalid_argument>([&] { SafetensorsFile const file(path); });
  }

  TemporaryFolder folder_;
  std::vector<float> weights_{1.5F, -2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
};

TEST_F(SafetensorsTest, every_dtype_comes_back) {
  std::vector<float16> const halves{from_float<float16>(0.5F)};
  std::vector<bfloat16> const brains{from_float<bfloat16>(-3.0F)};
  std::vector<std::int32_t> const ints{-1, 2};
  std::vector<std::int64_t> const longs{-(std::int64_t{1} << 60)};
  std::vector<std::uint8_t> const bytes{1, 2, 255};
  std::vector<float> const none;
  std::vector<HostTensor> const tensors{
      {"bytes", {3}, std::span<std::uint8_t const>(bytes)},
      {"halves", {1, 1}, std::span<float16 const>(halves)},
      {"weights", {2, 3}, std::span<float const>(weights_)},
      {"brains", {}, std::span<bfloat16 const>(brains)},
      {"ints", {2}, std::span<std::int32_t const>(ints)},
      {"longs", {1}, std::span<std::int64_t const>(longs)},
      {"none", {0, 7}, std::span<float const>(none)},
  };
  auto const path = folder_ / "model.safetensors";
  save_safetensors(path, tensors, {{"epoch", "3"}, {"quotes", "\"\n"}});

  SafetensorsFile const file(path);
  EXPECT_EQ(file.tensors().size(), 7U);
  EXPECT_EQ(file.values<float>("weights", {2, 3}), weights_);
  EXPECT_EQ(file.values<float16>("halves", {1, 1})[0].bits, halves[0].bits);
  EXPECT_EQ(file.values<bfloat16>("brains", {})[0].bits, brains[0].bits);
  EXPECT_EQ(file.values<std::int32_t>("ints", {2}), ints);
  EXPECT_EQ(file.values<std::int64_t>("longs", {1}), longs);
  EXPECT_EQ(file.values<std::uint8_t>("bytes", {3}), bytes);
  EXPECT_TRUE(file.values<float>("none", {0, 7}).empty());
  EXPECT_EQ(file.metadata(), (Metadata{{"epoch", "3"}, {"quotes", "\"\n"}}));
}

TEST_F(SafetensorsTest, the_bytes_are_those_of_the_format) {
  std::vector<std::uint8_t> const bytes{7};
  std::vector<std::int32_t> const ints{1};
  std::vector<HostTensor> const tensors{{"b", {1}, std::span<std::uint8_t const>(bytes)},
                                        {"i", {1}, std::span<std::int32_t const>(ints)}};
  save_safetensors(folder_ / "x", tensors);
  std::string header = R"({"i":{"dtype":"I32","shape":[1],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_all(folder_ / "x"), file_bytes(header, std::string_view("\1\0\0\0\7", 5)));
}

TEST_F(SafetensorsTest, a_model_without_tensors_is_a_file_too) {
  save_safetensors(folder_ / "x", {});
  SafetensorsFile const file(folder_ / "x");
  EXPECT_TRUE(file.tensors().empty());
}

TEST_F(SafetensorsTest, refuses_to_save_what_does_not_fit) {
  std::span<float const> const values = weights_;
  auto const save = [&](std::vector<HostTensor> const& tensors) {
    save_safetensors(folder_ / "x", tensors);
  };
  EXPECT_THROW(save({{"w", {2, 2}, values}}), std::invalid_argument);
  EXPECT_THROW(save({{"w", {-2, -3}, values}}), std::invalid_argument);
  EXPECT_THROW(save({{"w", {6}, values}, {"w", {6}, values}}), std::invalid_argument);
  EXPECT_THROW(save({{"__metadata__", {6}, values}}), std::invalid_argument);
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(SafetensorsTest, refuses_another_dtype_shape_or_name) {
  save_safetensors(folder_ / "x",
                   std::vector<HostTensor>{{"w", {2, 3}, std::span<float const>(weights_)}});
  SafetensorsFile const file(folder_ / "x");
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                (void)file.values<float>("w", {3, 2});
              }),
              EndsWith("x: tensor 'w': expected F32 [3, 2], found F32 [2, 3]"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                (void)file.values<std::int32_t>("w", {2, 3});
              }),
              EndsWith("expected I32 [2, 3], found F32 [2, 3]"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                (void)file.values<float>("v", {2, 3});
              }),
              EndsWith("x: there is no tensor 'v', only: w"));
}

TEST_F(SafetensorsTest, refuses_files_that_are_none) {
  EXPECT_THAT(
      message_of<std::system_error>([&] { SafetensorsFile const file(folder_ / "absent"); }),
      EndsWith("absent: cannot open: No such file or directory"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { SafetensorsFile const file("/dev/zero"); }),
              HasSubstr("/dev/zero: expected a regular file"));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { SafetensorsFile const file(folder_.path()); }),
      HasSubstr("found a folder"));
  EXPECT_THAT(failure(""), HasSubstr("expected a header length of 8 bytes, found 0"));
  EXPECT_THAT(failure(file_bytes("{}", "").substr(0, 9)), HasSubstr("the header claims 2 bytes"));
  EXPECT_THAT(failure(std::string(64, '\xff')),
              HasSubstr("the header claims 18446744073709551615"));
  EXPECT_THAT(failure(file_bytes(" {}", "")), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(failure(file_bytes("{\"a\":", "")), HasSubstr("the header is no JSON"));
}

TEST_F(SafetensorsTest, refuses_keys_that_are_there_twice) {
  constexpr auto entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(failure(file_bytes(fmt::format("{{{},{}}}", entry, entry), "x")),
              HasSubstr("the key 'a' is there twice"));
  EXPECT_THAT(failure(file_bytes(
                  R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x")),
              HasSubstr("the key 'dtype' is there twice"));
}

TEST_F(SafetensorsTest, refuses_entries_that_are_not_tensors) {
  auto const with = [&](std::string_view entry) {
    return failure(file_bytes(fmt::format("{{\"a\":{}}}", entry), "12345678"));
  };
  EXPECT_THAT(with("3"), HasSubstr("tensor 'a': expected dtype, shape and data_offsets"));
  EXPECT_THAT(with(R"({"dtype":"U8","shape":[8]})"), HasSubstr("expected dtype, shape and"));
  EXPECT_THAT(
      with(R"({"dtype":"F63","shape":[1],"data_offsets":[0,8]})"),
      HasSubstr("expected F32, F16, BF16, I32, I64, U8 or another of the format, found \"F63\""));
  EXPECT_THAT(with(R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})"),
              HasSubstr("shape: expected a list of whole numbers, found [-8]"));
  EXPECT_THAT(with(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]})"),
              HasSubstr("shape: expected a list of whole numbers"));
  EXPECT_THAT(with(R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})"),
              HasSubstr("shape: expected a list of whole numbers"));
  EXPECT_THAT(with(R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})"),
              HasSubstr("data_offsets: expected [begin, end], found [8, 0]"));
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
              HasSubstr("shape [3] of F32 does not take the 8 bytes"));
  // A shape of 2^62 · 4 elements of 4 bytes has a size that wraps to 0 in 64 bits.
  EXPECT_THAT(with(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})"),
              HasSubstr("does not take the 0 bytes"));
}

TEST_F(SafetensorsTest, refuses_tensors_that_do_not_tile_the_data) {
  auto const with = [&](std::string_view a, std::string_view b, std::string_view data) {
    constexpr auto entry = R"({"dtype":"U8","shape":[4],"data_offsets":)";
    return failure(
        file_bytes(fmt::format(R"({{"a":{}{}}},"b":{}{}}}}})", entry, a, entry, b), data));
  };
  EXPECT_THAT(with("[0,4]", "[3,7]", "1234567"), HasSubstr("tensor 'b' overlaps another"));
  EXPECT_THAT(with("[0,4]", "[0,4]", "1234"), HasSubstr("overlaps another"));
  EXPECT_THAT(with("[0,4]", "[5,9]", "123456789"), HasSubstr("tensor 'b' leaves a gap"));
  EXPECT_THAT(with("[1,5]", "[5,9]", "123456789"), HasSubstr("tensor 'a' leaves a gap"));
  EXPECT_THAT(with("[0,4]", "[4,8]", "1234567"),
              HasSubstr("tensor 'b' ends at byte 8, but there are 7; was the file copied"));
  EXPECT_THAT(with("[0,4]", "[4,8]", "123456789"), HasSubstr("1 bytes follow the last tensor"));
}

TEST_F(SafetensorsTest, refuses_to_save_text_that_is_not_utf8) {
  std::span<float const> const values = weights_;
  auto const save = [&](std::string name, Metadata const& metadata) {
    return message_of<std::invalid_argument>([&] {
      save_safetensors(
          folder_ / "x", std::vector<HostTensor>{{std::move(name), {6}, values}}, metadata);
    });
  };
  EXPECT_EQ(save("a\xff", {}), "safetensors: the tensor name 'a\xff' is not UTF-8");
  EXPECT_EQ(save("\xed\xa0\x80", {}).substr(0, 29), "safetensors: the tensor name ");
  EXPECT_EQ(save("w", {{"epoch", "\x80"}}), "safetensors: the metadata 'epoch' is not UTF-8");
  EXPECT_THAT(save("w", {{"\xc3", "3"}}), EndsWith("is not UTF-8"));
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(SafetensorsTest, nothing_times_anything_is_nothing) {
  for (auto const* shape : {"[0,4611686018427387904,4]", "[4611686018427387904,4,0]"}) {
    auto const path = folder_.write(
        "x",
        file_bytes(
            fmt::format(R"({{"w":{{"dtype":"F32","shape":{},"data_offsets":[0,0]}}}})", shape),
            ""));
    EXPECT_EQ(SafetensorsFile(path).tensor("w").bytes, 0U) << shape;
  }
}

TEST_F(SafetensorsTest, messages_stay_short) {
  std::string const name(100'000, 'n');
  EXPECT_LT(failure(file_bytes(fmt::format("{{\"{}\":3}}", name), "")).size(), 1000U);
  std::string many = "-1";
  for (int i = 0; i < 10'000; ++i) {
    many += ",-1";
  }
  EXPECT_LT(
      failure(file_bytes(fmt::format(
                             R"({{"w":{{"dtype":"U8","data_offsets":[0,1],"shape":[{}]}}}})", many),
                         "x"))
          .size(),
      1000U);
  EXPECT_THAT(failure(file_bytes(fmt::format("{{\"{}\u00e9\":3}}", std::string(159, 'n')), "")),
              HasSubstr("'" + std::string(159, 'n') + "…'"))
      << "a character is not cut";
  EXPECT_THAT(failure(file_bytes(R"({"\u001b":3})", "")), HasSubstr("tensor '?'"));
}

TEST_F(SafetensorsTest, refuses_values_that_nest_deeply) {
  // Nests a million brackets: quoting the value in a message by recursion would overflow the stack.
  std::string const open(1'000'000, '[');
  std::string const close(1'000'000, ']');
  EXPECT_THAT(
      failure(file_bytes(
          fmt::format(R"({{"w":{{"dtype":"U8","data_offsets":[0,1],"shape":{}{}}}}})", open, close),
          "x")),
      HasSubstr("values nest deeper than 8"));
}

TEST_F(SafetensorsTest, refuses_metadata_that_is_not_strings) {
  EXPECT_THAT(failure(file_bytes(R"({"__metadata__":{"a":1}})", "")),
              HasSubstr("an object of strings"));
  EXPECT_THAT(failure(file_bytes(R"({"__metadata__":"a"})", "")),
              HasSubstr("an object of strings"));
}

TEST_F(SafetensorsTest, every_cut_of_a_file_is_refused) {
  save_safetensors(folder_ / "x",
                   std::vector<HostTensor>{{"w", {6}, std::span<float const>(weights_)}});
  auto const whole = read_all(folder_ / "x");
  for (std::size_t kept = 0; kept < whole.size(); ++kept) {
    EXPECT_THAT(failure(whole.substr(0, kept)), HasSubstr("no valid safetensors file")) << kept;
  }
}

}  // namespace
}  // namespace msstream::checkpoint
