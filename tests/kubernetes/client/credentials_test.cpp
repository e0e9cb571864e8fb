// Tokens and plugins are refreshed before they expire and never quoted.
#include "kubernetes/client/credentials.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "kubernetes/client/program.hpp"
#include "lib/growing_time.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/thread_executor.hpp"

using namespace osm;

namespace {

using kubernetes::Access;
using kubernetes::Credentials;
using kubernetes::Program;
using kubernetes::run_program;
using std::chrono::minutes;
using std::chrono::seconds;

struct Fixture {
  std::string write(const std::string& name, const std::string& text) const {
    return directory.write(name, text);
  }
  // A plugin: a shell script that counts its runs.
  Access plugin(const std::string& script) const {
    const std::string path = write("plugin", "#!/bin/sh\necho run >>" + runs() + "\n" + script);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    Access access;
    access.origin = "kubeconfig (context c)";
    access.server = "https://10.0.0.1:6443";
    access.exec =
        kubernetes::ExecPlugin{.command = path, .api_version = "client.authentication.k8s.io/v1"};
    return access;
  }
  static std::string credential(const std::string& status) {
    return R"(printf '%s\n' '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)"
           R"("status":)" +
           status + "}'\n";
  }
  std::string runs() const { return directory.file("runs"); }
  int count_runs() const {
    std::ifstream file(runs());
    int count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

  testing::TemporaryDirectory directory;
  testing::ManualClock clock{WallTime(seconds(1767225600))};  // 2026-01-01T00:00:00Z
  std::map<std::string, std::string> environment{{"PATH", "/usr/bin:/bin"}};
};

TEST_SUITE("kubernetes::Credentials") {
  TEST_CASE("a token file is read again after a minute, and not before") {
    Fixture f;
    Access access;
    access.token_file = f.write("token", "one\n");
    Credentials credentials(access, {}, f.clock);
    CHECK(credentials.token().value() == "one");
    f.write("token", "two");
    f.clock.advance(seconds(59));
    CHECK(credentials.token_at_hand()->value() == "one");
    f.clock.advance(seconds(2));
    CHECK(credentials.token_at_hand()->value() == "two");
  }

  TEST_CASE(
      "a token that was refused is read again at once; another one's refusal changes nothing") {
    Fixture f;
    Access access;
    access.token_file = f.write("token", "one");
    Credentials credentials(access, {}, f.clock);
    CHECK(credentials.token().value() == "one");
    f.write("token", "two");
    credentials.refused("zero");
    CHECK(credentials.token().value() == "one");
    credentials.refused("one");
    CHECK(credentials.token().value() == "two");
  }

  TEST_CASE("while its file cannot be read a token is used on; without one the file is named") {
    Fixture f;
    Access access;
    access.token_file = f.write("token", "one");
    Credentials credentials(access, {}, f.clock);
    CHECK(credentials.token().value() == "one");
    std::filesystem::remove(access.token_file);
    f.clock.advance(minutes(5));
    CHECK(credentials.token().value() == "one");
    f.write("token", "\n");
    CHECK(credentials.token().value() == "one");
    f.write("token", "two");
    CHECK(credentials.token().value() == "two");

    Access empty;
    empty.token_file = f.write("empty", "s3cret\ns3cret\n");
    const auto none = Credentials(empty, {}, f.clock).token();
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().message == empty.token_file + ": holds no token; it must be one line");
  }

  TEST_CASE("a calendar that is set back does not keep a token alive") {
    Fixture f;
    Access access;
    access.token_file = f.write("token", "one");
    Credentials credentials(access, {}, f.clock);
    CHECK(credentials.token().value() == "one");
    f.write("token", "two");
    f.clock.set_wall(f.clock.wall_now() - std::chrono::hours(24));
    CHECK(credentials.token().value() == "two");
  }

  TEST_CASE("a plugin is run once and again shortly before what it said expires") {
    Fixture f;
    Credentials credentials(
        f.plugin(f.credential(R"({"token":"t","expirationTimestamp":"2026-01-01T01:00:00Z"})")),
        f.environment, f.clock);
    CHECK_FALSE(credentials.token_at_hand().has_value());
    CHECK(credentials.token().value() == "t");
    CHECK(credentials.token_at_hand()->value() == "t");
    f.clock.advance(minutes(59));
    CHECK(credentials.token().value() == "t");
    CHECK(f.count_runs() == 1);
    f.clock.advance(seconds(45));
    CHECK_FALSE(credentials.token_at_hand().has_value());
    CHECK(credentials.token().value() == "t");
    CHECK(f.count_runs() == 2);
    credentials.refused("t");
    CHECK(credentials.token().ok());
  }

  TEST_CASE("while a plugin fails its last token is used until it expires") {
    Fixture f;
    Credentials credentials(
        f.plugin(
            "test -e " + f.directory.file("broken") + " && exit 3\n" +
            f.credential(R"({"token":"t","expirationTimestamp":"2026-01-01T02:00:00+01:00"})")),
        f.environment, f.clock);
    CHECK(credentials.token().value() == "t");
    f.write("broken", "");
    f.clock.advance(minutes(59) + seconds(40));
    CHECK(credentials.token().value() == "t");
    f.clock.advance(seconds(30));
    const auto failed = credentials.token();
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().message.starts_with("kubeconfig (context c): credential plugin "));
    CHECK(failed.error().message.find("ended with 3; run it by hand to see why") !=
          std::string::npos);
  }

  TEST_CASE("a plugin gets what its apiVersion promises, and the host's environment") {
    Fixture f;
    Access access = f.plugin("");
    f.write("plugin", "#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >" + f.directory.file("info") +
                          "\nread line && exit 9\n" +
                          "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":"
                          "\"ExecCredential\",\"status\":{\"token\":\"'$GIVEN-$OWN-$1'\"}}'\n");
    access.exec->environment = {{"OWN", "own"}};
    access.exec->arguments = {"a;b $(c)"};  // no shell reads it
    access.exec->provide_cluster_info = true;
    f.environment["GIVEN"] = "host";
    Credentials credentials(access, f.environment, f.clock);
    const auto token = credentials.token();
    REQUIRE_MESSAGE(token.ok(), (token.ok() ? "" : token.error().text()));
    CHECK(*token == "host-own-a;b $(c)");
    std::ifstream file(f.directory.file("info"));
    std::string info;
    std::getline(file, info);
    CHECK(info == R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)"
                  R"("spec":{"interactive":false,"cluster":{"server":"https://10.0.0.1:6443"}}})");
  }

  TEST_CASE("a plugin's output is checked and never quoted") {
    struct Case {
      std::string output;
      std::string cause;
    };
    for (const Case& c :
         {Case{"echo s3cret", "did not print an ExecCredential"},
          Case{"echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"v1\"}'", "another apiVersion"},
          Case{Fixture::credential("null"), "printed no status"},
          Case{Fixture::credential("{}"), "neither a token nor a certificate"},
          Case{Fixture::credential(R"({"clientKeyData":"s3cret"})"), "half of a certificate"},
          Case{Fixture::credential(R"({"token":"s3cret","expirationTimestamp":"tomorrow"})"),
               "no RFC 3339 time"},
          Case{Fixture::credential(R"({"token":"s3cret\nX-Other: 1"})"), "several lines"}}) {
      CAPTURE(c.cause);
      Fixture f;
      const auto token = Credentials(f.plugin(c.output), f.environment, f.clock).token();
      REQUIRE_FALSE(token.ok());
      CHECK_MESSAGE(token.error().message.find(c.cause) != std::string::npos,
                    token.error().message);
      CHECK(token.error().message.find("s3cret") == std::string::npos);
    }
  }

  TEST_CASE("a plugin's certificate is shown from then on") {
    Fixture f;
    Credentials credentials(
        f.plugin(f.credential(R"({"clientCertificateData":"CERT","clientKeyData":"KEY"})")),
        f.environment, f.clock);
    CHECK(credentials.tls()->certificate_pem.empty());
    CHECK(credentials.token()->empty());
    const auto tls = credentials.tls();
    CHECK(tls->certificate_pem == "CERT");
    CHECK(tls->private_key->pem() == "KEY");
  }

  TEST_CASE("roots and certificates are read from their files for each connection") {
    Fixture f;
    Access access;
    access.certificate_authority.path = f.write("ca", "CA 1");
    access.client_certificate.path = f.write("cert", "CERT 1");
    access.client_key_file = f.write("key", "KEY 1");
    Credentials credentials(access, {}, f.clock);
    CHECK(credentials.tls()->trusted_pem == "CA 1");
    f.write("ca", "CA 2");
    f.write("key", "KEY 2");
    CHECK(credentials.tls()->trusted_pem == "CA 2");
    CHECK(credentials.tls()->private_key->pem() == "KEY 2");
    std::filesystem::remove(access.certificate_authority.path);
    // Never the system's roots in their place.
    REQUIRE_FALSE(credentials.tls().ok());
    f.write("ca", "");
    REQUIRE_FALSE(credentials.tls().ok());
  }
}

TEST_SUITE("kubernetes::run_program") {
  TEST_CASE("a plugin that does not end is killed with its children at the deadline") {
    Fixture f;
    const std::string pid_file = f.directory.file("pid");
    Program program{
        "/bin/sh", {"-c", "sleep 100 & echo $! >" + pid_file + "; wait"}, f.environment};
    pid_t child = 0;
    REQUIRE(testing::with_growing_time(std::chrono::seconds(1), [&](auto deadline) {
      program.deadline = deadline;
      const auto output = run_program(program);
      REQUIRE_FALSE(output.ok());
      CHECK(output.error().code == ErrorCode::kDeadlineExceeded);
      std::ifstream(pid_file) >> child;
      return child > 0;
    }));
    // Gone, or a zombie that nobody has fetched yet.
    CHECK(testing::wait_until([&] {
      std::ifstream status("/proc/" + std::to_string(child) + "/stat");
      std::string number, name, state;
      status >> number >> name >> state;
      return !status || state == "Z";
    }));
  }

  TEST_CASE("a child that holds the output open does not hold up its answer") {
    Fixture f;
    const auto output = run_program({"/bin/sh", {"-c", "echo answer; sleep 100 &"}, f.environment});
    REQUIRE_MESSAGE(output.ok(), (output.ok() ? "" : output.error().text()));
    CHECK(*output == "answer\n");
  }

  TEST_CASE("output beyond a mebibyte, signals and missing programs are errors") {
    Fixture f;
    CHECK(run_program({"sh", {"-c", "yes"}, f.environment}).error().code == ErrorCode::kTooLarge);
    CHECK(run_program({"sh", {"-c", "kill -9 $$"}, f.environment}).error().message ==
          "sh: was ended by signal 9");
    CHECK(run_program({"no-such-program", {}, f.environment}).error().code == ErrorCode::kNotFound);
    CHECK(run_program({"sh", {}, {}}).error().code == ErrorCode::kNotFound);  // no PATH
  }
}

}  // namespace
