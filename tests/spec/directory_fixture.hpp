// A real directory under a real inotify, with time in the test's hand.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/stat.h>
#include <boost/json/serialize.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/temporary_directory.hpp"
#include "osm/runtime/fd_watcher.hpp"
#include "osm/runtime/system.hpp"
#include "osm/spec/directory_store.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

namespace osm::spec::testing {

namespace fs = std::filesystem;

using osm::testing::TemporaryDirectory;

// Calls back only when told to look.
class ManualFdWatcher final : public FdWatcher {
 public:
  Subscription watch(int fd, std::function<void()> on_readable) override {
    fd_ = fd;
    on_readable_ = std::move(on_readable);
    return Subscription(std::shared_ptr<void>(this, [this](void*) { fd_ = -1; }));
  }
  // Result: true if there was something to read.
  bool look() {
    pollfd entry{fd_, POLLIN, 0};
    if (fd_ < 0 || poll(&entry, 1, 0) != 1) return false;
    on_readable_();
    return true;
  }

 private:
  int fd_ = -1;
  std::function<void()> on_readable_;
};

// One thread per watch, as an event loop would call.
class ThreadFdWatcher final : public FdWatcher {
 public:
  Subscription watch(int fd, std::function<void()> on_readable) override {
    struct Watch {
      std::atomic<bool> stopped = false;
      std::thread thread;
    };
    auto watch = std::make_shared<Watch>();
    watch->thread = std::thread([fd, raw = watch.get(), call = std::move(on_readable)] {
      while (!raw->stopped) {
        pollfd entry{fd, POLLIN, 0};
        if (poll(&entry, 1, 5) == 1) call();
      }
    });
    return Subscription(std::shared_ptr<void>(watch.get(), [watch](void*) {
      watch->stopped = true;
      watch->thread.join();
    }));
  }
};

inline void write_file(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::trunc) << text;
}

inline std::string namespace_yaml(const std::string& name, const std::string& label = "1") {
  return "apiVersion: v1\nkind: Namespace\nmetadata: {name: " + name + ", labels: {v: \"" + label +
         "\"}}\n";
}

class DirectoryFixture {
 public:
  explicit DirectoryFixture(bool create = true) : mesh(temporary.path() / "mesh") {
    if (create) fs::create_directory(mesh);
  }
  ~DirectoryFixture() { store.reset(); }

  void start() {
    auto made = make_directory_store({mesh.string(), watcher, runtime});
    REQUIRE(made.ok());
    store = std::move(made).value();
    subscription =
        store->subscribe([this](const std::vector<ObjectKey>& keys) { notified.push_back(keys); });
    executor.run_until_idle();
  }

  // Lets events in and `time` pass, in steps, as the world does.
  void pass(std::chrono::milliseconds time = std::chrono::milliseconds(300)) {
    for (auto done = std::chrono::milliseconds(0); done < time;
         done += std::chrono::milliseconds(10)) {
      watcher.look();
      executor.run_for(std::chrono::milliseconds(10));
    }
  }

  // "name=label" of each Namespace, in order.
  std::vector<std::string> content() const {
    std::vector<std::string> out;
    for (const auto& object : store->list(kinds::kNamespace))
      out.push_back(object->key.name + '=' + object->labels.at("v"));
    return out;
  }

  // All objects with their newest source.
  std::map<ObjectKey, std::string> everything() const {
    std::map<ObjectKey, std::string> out;
    for (const auto& object : store->list(kinds::kNamespace))
      out[object->key] = boost::json::serialize(*object->document) + '@' + object->source.path +
                         ':' + std::to_string(object->source.line);
    return out;
  }

  std::vector<std::string> problems() const {
    std::vector<std::string> out;
    for (const auto& problem : store->list_problems()) {
      std::string text = problem.text();
      for (std::size_t at; (at = text.find(mesh.string())) != std::string::npos;)
        text.replace(at, mesh.string().size(), "mesh");
      out.push_back(std::move(text));
    }
    return out;
  }

  std::vector<std::vector<ObjectKey>> take_notified() { return std::exchange(notified, {}); }

  TemporaryDirectory temporary;
  fs::path mesh;
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  ManualFdWatcher watcher;
  RandomRng rng{1};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  Runtime runtime{executor, executor, clock, rng, log, metrics};
  std::unique_ptr<ObjectStore> store;
  Subscription subscription;
  std::vector<std::vector<ObjectKey>> notified;
};

}  // namespace osm::spec::testing
