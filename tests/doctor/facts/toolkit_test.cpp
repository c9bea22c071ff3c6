// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/toolkit.hpp"

#include "base/temporary_folder.hpp"
#include "doctor/facts/driver.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace msstream::doctor {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// A folder that stands for the files of a computer, and its variables.
class DoctorToolkit : public ::testing::Test {
 protected:
  void write(std::string_view path, std::string_view text = "x") const {
    auto const file = folder_.path() / fs::path(path).relative_path();
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void link(std::string_view path, std::string_view to) const {
    auto const file = folder_.path() / fs::path(path).relative_path();
    fs::create_directories(file.parent_path());
    fs::create_symlink(to, file);
  }
  /// Installs a toolkit in a folder, such as one of version `12.4.1`.
  void install(std::string const& folder, std::string const& version) const {
    write(folder + "/bin/nvcc");
    write(folder + "/version.json",
          R"({"cuda": {"name": "CUDA SDK", "version": ")" + version + R"("}})");
    write(folder + "/include/crt/host_config.h",
          "#error -- unsupported GNU version! gcc versions later than 13 are not supported!\n"
          "#error -- unsupported clang version! clang version must be less than 18 and\n");
  }
  [[nodiscard]] ToolkitFacts read() const { return read_toolkits(variables_, folder_.path()); }
  [[nodiscard]] Lines lines(int driver_supports = 13'000) const {
    return toolkit_lines(read(), driver_supports);
  }
  [[nodiscard]] std::string way(int driver_supports = 13'000) const {
    return way_to_cuda_build(read(), driver_supports);
  }

  msstream::testing::TemporaryFolder folder_;
  Variables variables_{{"PATH", "/usr/local/cuda/bin:/usr/bin"}};
};

TEST_F(DoctorToolkit, a_computer_without_any_has_one_line) {
  EXPECT_EQ(lines().size(), 1U);
  EXPECT_EQ(the_line(lines(), "toolkit").value, "none found");
  EXPECT_EQ(worst_of(lines()), Level::ok);
  EXPECT_THAT(the_line(lines(), "toolkit").advice, HasSubstr("12.4 to 13.0"));
  EXPECT_THAT(the_line(lines(0), "toolkit").advice, HasSubstr("12.4 or newer"));
  EXPECT_THAT(
      way(),
      AllOf(HasSubstr("install the CUDA toolkit, 12.4 to 13.0"), HasSubstr("msstream-cu13")));
  EXPECT_THAT(way(12'080), AllOf(HasSubstr("msstream-cu12"), Not(HasSubstr("cu13"))));
}

TEST_F(DoctorToolkit, names_of_one_toolkit_are_one_line) {
  install("/usr/local/cuda-13.0", "13.0.1");
  link("/usr/local/cuda", "cuda-13.0");
  variables_["CUDA_HOME"] = "/usr/local/cuda/";
  auto const facts = read();
  ASSERT_EQ(facts.toolkits.size(), 1U);
  EXPECT_THAT(facts.toolkits[0].named_by, ElementsAre("PATH", "CUDA_HOME", "/usr/local/cuda"));
  EXPECT_EQ(facts.toolkits[0].version, 13'000);
  EXPECT_EQ(the_line(lines(), "toolkit").value,
            "13.0, /usr/local/cuda-13.0 (PATH, CUDA_HOME, /usr/local/cuda)");
  EXPECT_EQ(the_line(lines(), "toolkit").quantity->number, 13);
  EXPECT_EQ(the_line(lines(), "nvcc").value, "/usr/local/cuda-13.0/bin/nvcc, CUDA 13.0, by PATH");
  EXPECT_EQ(level_of(lines(), "nvcc"), Level::ok);
  EXPECT_THAT(way(), AllOf(HasSubstr("-DMSSTREAM_CUDA=ON"), Not(HasSubstr("CMAKE_CUDA_COMPILER"))));
}

TEST_F(DoctorToolkit, the_headers_tell_the_version_too) {
  install("/usr/local/cuda-12.6", "");
  write("/usr/local/cuda-12.6/include/cuda.h", "/* CUDA */\n#define CUDA_VERSION 12060\n");
  EXPECT_EQ(read().toolkits[0].version, 12'060);
  write("/usr/local/cuda-12.6/version.json", "{broken");
  EXPECT_EQ(read().toolkits[0].version, 12'060);
  write("/usr/local/cuda-12.6/include/cuda.h", "");
  write("/usr/local/cuda-12.6/include/cuda_runtime_api.h", "#define CUDART_VERSION  12061\n");
  EXPECT_EQ(read().toolkits[0].version, 12'061);
  write("/usr/local/cuda-12.6/include/cuda_runtime_api.h", "");
  EXPECT_EQ(level_of(lines(), "toolkit"), Level::note);
  EXPECT_THAT(the_line(lines(), "toolkit").advice,
              HasSubstr("/usr/local/cuda-12.6/bin/nvcc --version"));
}

TEST_F(DoctorToolkit, versions_are_compared_with_what_the_build_and_the_driver_need) {
  install("/usr/local/cuda", "12.3.2");
  EXPECT_THAT(the_line(lines(), "toolkit").advice, HasSubstr("too old"));
  EXPECT_THAT(way(), HasSubstr("can build for them"));
  install("/usr/local/cuda", "12.4.0");
  EXPECT_EQ(level_of(lines(), "toolkit"), Level::ok);
  install("/usr/local/cuda", "13.0.0");
  EXPECT_EQ(level_of(lines(), "toolkit"), Level::ok);
  EXPECT_EQ(level_of(lines(0), "toolkit"), Level::ok);  // an unknown driver
  EXPECT_EQ(level_of(lines(12'080), "toolkit"), Level::note);
  EXPECT_THAT(the_line(lines(12'080), "toolkit").advice,
              HasSubstr("does not run with this driver"));
  install("/usr/local/cuda", "13.1.0");
  EXPECT_EQ(level_of(lines(), "toolkit"), Level::note);
  EXPECT_THAT(the_line(lines(), "toolkit").advice, HasSubstr("cannot compile PTX"));
}

TEST_F(DoctorToolkit, of_several_the_one_that_cmake_takes_is_named) {
  install("/usr/local/cuda-12.3", "12.3.0");
  install("/usr/local/cuda-12.8", "12.8.0");
  variables_["PATH"] = "/usr/bin:/usr/local/cuda-12.3/bin";
  EXPECT_EQ(read().toolkits.size(), 2U);
  auto line = the_line(lines(), "nvcc");
  EXPECT_THAT(line.value, AllOf(StartsWith("/usr/local/cuda-12.3"), HasSubstr("by PATH")));
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("CUDACXX=/usr/local/cuda-12.8/bin/nvcc"));
  EXPECT_THAT(way(), HasSubstr("-DCMAKE_CUDA_COMPILER=/usr/local/cuda-12.8/bin/nvcc"));
  variables_["CUDACXX"] = "/usr/local/cuda-12.8/bin/nvcc -lineinfo";
  line = the_line(lines(), "nvcc");
  EXPECT_EQ(line.level, Level::ok);
  EXPECT_THAT(line.value, AllOf(StartsWith("/usr/local/cuda-12.8"), HasSubstr("by CUDACXX")));
  variables_["CUDA_HOME"] = "/usr/local/cuda-12.3";
  EXPECT_THAT(the_line(lines(), "nvcc").advice, HasSubstr("CUDA_HOME names another"));
}

TEST_F(DoctorToolkit, cmake_looks_in_cuda_path_last_and_not_in_usr_local) {
  install("/usr/local/cuda-12.8", "12.8.0");
  variables_["PATH"] = "/usr/bin";
  auto const line = the_line(lines(), "nvcc");
  EXPECT_THAT(line.value, StartsWith("none"));
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.advice, HasSubstr("CUDACXX=/usr/local/cuda-12.8/bin/nvcc"));
  install("/opt/cuda", "13.0.0");
  variables_["CUDA_PATH"] = "/opt/cuda";
  EXPECT_EQ(the_line(lines(), "nvcc").value, "/opt/cuda/bin/nvcc, CUDA 13.0, by CUDA_PATH");
}

TEST_F(DoctorToolkit, variables_without_a_toolkit_are_told) {
  variables_["CUDA_HOME"] = "/opt/none";
  EXPECT_EQ(the_line(lines(), "toolkit-variable").value, "/opt/none");
  EXPECT_EQ(level_of(lines(), "toolkit-variable"), Level::note);
  variables_.erase("CUDA_HOME");
  install("/usr/local/cuda", "13.0.0");
  variables_["CUDACXX"] = "/opt/none/bin/nvcc";
  EXPECT_FALSE(read().chosen.has_value());  // CMake ends with an error
  EXPECT_EQ(the_line(lines(), "toolkit-variable").thing, "CUDACXX");
}

TEST_F(DoctorToolkit, a_script_that_starts_nvcc_is_followed) {
  write("/usr/lib/nvidia-cuda-toolkit/bin/nvcc");
  write("/usr/include/cuda.h", "#define CUDA_VERSION 12040\n");
  write("/usr/bin/nvcc", "#!/bin/sh\nexec \"/usr/lib/nvidia-cuda-toolkit/bin/nvcc\" \"$@\"\n");
  EXPECT_EQ(the_line(lines(), "toolkit").value, "12.4, /usr/lib/nvidia-cuda-toolkit (PATH)");
}

TEST_F(DoctorToolkit, libraries_alone_build_nothing) {
  write("/usr/local/cuda-13.0/version.json", R"({"cuda": {"version": "13.0.0"}})");
  EXPECT_THAT(the_line(lines(), "toolkit").advice, HasSubstr("no nvcc"));
  EXPECT_THAT(the_line(lines(), "nvcc").value, StartsWith("none"));
  EXPECT_THAT(way(), HasSubstr("install"));
  EXPECT_EQ(level_of(lines(), "toolkit"), Level::ok);
}

TEST_F(DoctorToolkit, the_compiler_of_host_code_must_fit_nvcc) {
  install("/usr/local/cuda", "12.4.0");
  EXPECT_EQ(the_line(lines(), "host-compiler").value, "none found");
  write("/usr/bin/x86_64-linux-gnu-g++-13");
  link("/usr/bin/g++", "x86_64-linux-gnu-g++-13");
  EXPECT_EQ(the_line(lines(), "host-compiler").value, "g++ 13, /usr/bin/g++");
  EXPECT_EQ(level_of(lines(), "host-compiler"), Level::ok);
  write("/usr/bin/g++-14");
  variables_["CXX"] = "g++-14";
  EXPECT_EQ(level_of(lines(), "host-compiler"), Level::note);
  EXPECT_THAT(the_line(lines(), "host-compiler").advice,
              HasSubstr("CUDA 12.4 accepts g++ up to 13"));
  write("/usr/bin/g++-11");
  variables_["CXX"] = "/usr/bin/g++-11";
  EXPECT_THAT(the_line(lines(), "host-compiler").advice, HasSubstr("g++ 12 or newer"));
  write("/usr/lib/llvm-18/bin/clang");
  link("/usr/bin/clang++", "../lib/llvm-18/bin/clang");
  variables_["CXX"] = "clang++";
  EXPECT_THAT(the_line(lines(), "host-compiler").advice, HasSubstr("accepts clang up to 17"));
  variables_["CXX"] = "icpx";
  EXPECT_EQ(the_line(lines(), "toolkit-variable").value, "icpx");
}

TEST_F(DoctorToolkit, a_compiler_without_a_version_in_its_name_has_a_folder) {
  write("/usr/local/bin/g++");
  write("/usr/local/lib/gcc/x86_64-linux-gnu/14.2.0/cc1");
  variables_["PATH"] = "/usr/local/bin";
  EXPECT_EQ(the_line(lines(), "host-compiler").value, "g++ 14, /usr/local/bin/g++");
  EXPECT_EQ(level_of(lines(), "host-compiler"), Level::ok);  // no nvcc refuses it
}

TEST_F(DoctorToolkit, headers_are_found_where_cmake_looks) {
  install("/opt/cuda", "13.0.0");
  variables_["PATH"] = "/opt/cuda/bin";
  EXPECT_EQ(the_line(lines(), "cupti-headers").value, "not found");
  EXPECT_THAT(the_line(lines(), "cupti-headers").advice, HasSubstr("msstream-overlap run"));
  EXPECT_EQ(level_of(lines(), "cupti-headers"), Level::note);
  EXPECT_THAT(the_line(lines(), "nccl-headers").advice, HasSubstr("collectives between GPUs"));
  write("/opt/cuda/extras/CUPTI/include/cupti.h");  // where CMake looks only below /usr/local/cuda
  EXPECT_THAT(the_line(lines(), "cupti-headers").advice,
              HasSubstr("-DMSSTREAM_CUPTI_HEADERS=/opt/cuda/extras/CUPTI/include"));
  write("/opt/cuda/include/cupti.h");
  EXPECT_EQ(the_line(lines(), "cupti-headers").value, "/opt/cuda/include/cupti.h");
  EXPECT_EQ(level_of(lines(), "cupti-headers"), Level::ok);
  write("/usr/include/nccl.h",
        "#define NCCL_MAJOR 2\n#define NCCL_MINOR 28\n#define NCCL_PATCH 9\n");
  EXPECT_EQ(the_line(lines(), "nccl-headers").value, "2.28.9, /usr/include/nccl.h");
  EXPECT_THAT(the_line(lines(), "nccl-headers").advice, HasSubstr("-DMSSTREAM_NCCL=auto"));
}

TEST_F(DoctorToolkit, a_host_build_beside_a_gpu_is_told_what_to_do_here) {
  DriverFacts driver;
  driver.supports = 13'000;
  driver.devices = 1;
  auto const advice = [&] { return the_line(driver_lines(driver, way()), "devices").advice; };
  EXPECT_THAT(advice(),
              AllOf(HasSubstr("does not use them"), HasSubstr("install the CUDA toolkit")));
  install("/usr/local/cuda", "13.0.0");
  EXPECT_THAT(advice(), AllOf(HasSubstr("CUDA 13.0 is there"), Not(HasSubstr("install the"))));
}

TEST_F(DoctorToolkit, other_lines_of_path_do_no_harm) {
  variables_["PATH"] = ":relative/bin::/no/such";
  EXPECT_THAT(read().toolkits, IsEmpty());
  variables_.clear();
  EXPECT_EQ(lines().size(), 1U);
}

}  // namespace
}  // namespace msstream::doctor
