// Keys are zeroed when they are freed, moved or overwritten.
//
// Watches every block that goes back to the allocator: none may still hold a key.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "certificate/fake_issuer.hpp"
#include "certificate/freed_blocks.hpp"
#include "certificate/local_issuer.hpp"
#include "lib/run.hpp"
#include "osm/certificate/make_manager.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

void* operator new(std::size_t size) {
  if (void* block = std::malloc(size == 0 ? 1 : size)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  osm::certificate::testing::inspect_freed(block);
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  osm::certificate::testing::inspect_freed(block);
  std::free(block);
}

namespace osm::certificate {

using testing::Watch;

constexpr std::string_view kSecret = "an imaginary key, long enough for the heap";

TEST_SUITE("certificate::PrivateKey") {
  TEST_CASE("the watch sees a plain string that is freed") {
    const Watch watch(kSecret.substr(1));  // clearing a string overwrites its first byte anyway
    { const auto text = std::make_unique<std::string>(kSecret); }
    CHECK(watch.leaked() == 1);
  }

  TEST_CASE("a key on the heap is zeroed when it dies, is moved, or is assigned over") {
    const Watch watch(kSecret.substr(1));  // clearing a string overwrites its first byte anyway
    {
      PrivateKey first{std::string(kSecret)};
      PrivateKey second(std::move(first));
      PrivateKey third{std::string(kSecret)};
      third = std::move(second);
      CHECK(first.empty());   // NOLINT: what a moved-from key holds is the point
      CHECK(second.empty());  // NOLINT
      CHECK(third.pem() == kSecret);
      PrivateKey& self = third;
      third = std::move(self);
      CHECK(third.pem() == kSecret);
    }
    CHECK(watch.leaked() == 0);
  }

  TEST_CASE("a key short enough to live inside its string leaves nothing behind when moved from") {
    constexpr std::string_view kShort = "short-key";
    alignas(PrivateKey) std::array<unsigned char, sizeof(PrivateKey)> memory{};
    const auto holds_key = [&] {
      return ::memmem(memory.data(), memory.size(), kShort.data() + 1, kShort.size() - 1) !=
             nullptr;
    };
    auto* key = new (memory.data()) PrivateKey(std::string(kShort));
    REQUIRE(holds_key());
    PrivateKey other(std::move(*key));
    CHECK_FALSE(holds_key());
    *key = std::move(other);
    REQUIRE(holds_key());
    key->~PrivateKey();
    CHECK_FALSE(holds_key());
  }

  TEST_CASE("a secret text that is copied, grows or is assigned over leaves nothing behind") {
    const Watch watch(kSecret.substr(1));
    {
      SecretBytes text{std::string(kSecret)};
      SecretBytes copy = text;
      CHECK(copy == text);
      for (int i = 0; i < 100; ++i) copy.append(" and more of it");
      CHECK(copy.text().starts_with(kSecret));
      CHECK(copy.text().size() == kSecret.size() + 1500);
      copy = text;
      CHECK(copy.text() == kSecret);
      text = SecretBytes();
      std::string plain(kSecret);
      const EraseOnExit erased(plain);
    }
    CHECK(watch.leaked() == 0);
  }

  TEST_CASE("issuing a certificate leaves its key nowhere but in its holder's hand") {
    const SystemClock clock;
    testing::FakeCa unused(clock);
    const auto root = make_root_pem(clock);
    REQUIRE(root.ok());
    auto issuer = make_local_issuer(root->pem(), TrustDomain("cluster.local"), clock);
    REQUIRE(issuer.ok());
    osm::testing::ManualClock manual;
    osm::testing::ManualExecutor executor(manual);
    osm::testing::CapturingLog log;
    osm::testing::CapturingMetrics metrics;
    RandomRng rng(osm::testing::seed());
    const auto manager = make_manager({.issuer = std::move(issuer).value(),
                                       .runtime = {executor, executor, clock, rng, log, metrics}});
    const Subject subject = testing::workload("buyer");
    auto issued = manager->issue_certificate(subject, std::chrono::hours(48));
    REQUIRE(issued.ok());
    CertificatePtr held = *issued;
    const std::string& pem = held->private_key.pem();
    // A line of the key's base64, after the header line.
    const Watch watch(std::string_view(pem).substr(pem.find('\n') + 1, 60));
    issued = Error{};
    manager->release_certificate(subject.common_name);
    CHECK(held->private_key.pem().size() > 100);  // a holder keeps what it holds
    held.reset();
    CHECK(watch.leaked() == 0);
    CHECK(manager->list_certificates().empty());
  }
}

}  // namespace osm::certificate
