#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "lib/run.hpp"

// Null in a program that is not linked with gRPC.
extern "C" {
[[gnu::weak]] void grpc_init();
[[gnu::weak]] void grpc_shutdown_blocking();
[[gnu::weak]] int grpc_is_initialized();
}

namespace {

class Listener : public doctest::IReporter {
 public:
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

// Prints the seed at the start, for a run that is killed, and after each failed test the command
// that repeats it.
class SeedListener final : public Listener {
 public:
  explicit SeedListener(const doctest::ContextOptions& options) : out_(*options.cout) {}

  void test_run_start() override { out_ << "OSM_TEST_SEED=" << osm::testing::seed() << std::endl; }
  void test_case_start(const doctest::TestCaseData& test) override { test_ = &test; }
  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    if (stats.failure_flags == doctest::TestCaseFailureReason::None) return;
    std::error_code ignored;
    out_ << "repeat with: OSM_TEST_SEED=" << osm::testing::seed()
         << (osm::testing::long_run() ? " OSM_TEST_LONG=1 " : " ")
         << std::filesystem::read_symlink("/proc/self/exe", ignored).string()
         << " '--test-case=" << pattern_for(test_->m_name) << "'"
         << (test_->m_skip ? " --no-skip" : "") << std::endl;
  }

 private:
  // A comma separates two filters of doctest, and a quote would end the shell's word.
  static std::string pattern_for(std::string_view name) {
    std::string pattern(name);
    for (char& each : pattern)
      if (each == ',' || each == '\'' || each == '\\') each = '?';
    return pattern;
  }

  std::ostream& out_;
  const doctest::TestCaseData* test_ = nullptr;
};

// Ends gRPC before the program ends. Its threads free handshakes and channels after the last test,
// and LeakSanitizer reports those that a thread still has when the process ends.
class GrpcListener final : public Listener {
 public:
  explicit GrpcListener(const doctest::ContextOptions& options) : out_(*options.cout) {}

  void test_run_end(const doctest::TestRunStats&) override {
    if (grpc_is_initialized == nullptr) return;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (grpc_is_initialized() != 0 || is_ending()) {
      if (std::chrono::steady_clock::now() > deadline) {
        out_ << "gRPC has not ended: a test left a channel or a server" << std::endl;
        return;
      }
      if (grpc_is_initialized() != 0) {  // this thread ends it if nobody else holds it
        grpc_init();
        grpc_shutdown_blocking();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  // A thread of gRPC's that drops the last reference leaves the end to a detached one.
  static bool is_ending() {
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name == "grpc_shutdown") return true;
    }
    return false;
  }

  std::ostream& out_;
};

REGISTER_LISTENER("seed", 1, SeedListener);
REGISTER_LISTENER("grpc", 2, GrpcListener);

}  // namespace
