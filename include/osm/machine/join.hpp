// A machine joins the mesh by a token, which works once. The token names the machine and the
// server, and has the roots that verify the server. docs/vm.md is for its users.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "osm/detail/api.hpp"
#include "osm/executor.hpp"
#include "osm/machine/bootstrap.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::net {
class AsioExecutor;
}

namespace osm::inline v1::machine {

// The content of a token. It is a secret until it is used.
struct JoinToken {
  std::string id;
  std::string secret;
  std::string join;         // HOST:PORT that the machine asks
  std::string server_name;  // in that server's certificate
  std::string controller;   // HOST:PORT of the ADS server
  std::string roots;        // PEM: they verify the server
};

// Largest text of a token. Units: bytes; roots of a CA may be many.
inline constexpr std::size_t kMaxJoinToken = 256 * 1024;

// The token as one line of text, without its end. Failure: none. Thread: any. Blocking: no.
OSM_API std::string encode_join_token(const JoinToken& token);

// Reads that text; white space behind it is no part of it. `source` says in errors where the text
// is from. Failure: kInvalidArgument, which does not quote the text. Thread: any. Blocking: no.
OSM_API Result<JoinToken> decode_join_token(std::string text, const std::string& source);

// The token, and the proxy of this machine.
struct JoinOptions {
  JoinToken token;
  ProxyOptions proxy;
  // For each of two answers, and for repetitions of a question while the server is busy.
  std::chrono::milliseconds timeout{10000};
  // True: the questions are asked as the proxy's user, whose traffic interception leaves alone. See
  // RenewOptions::as_proxy_user.
  bool as_proxy_user = false;
};

// Threads of the caller. Lifetime: both outlive the call, and the threads of `blocking` end before
// the context of `io` does. OwnRuntime does so.
struct JoinHost {
  net::AsioExecutor& io;  // connections to the server
  Executor& blocking;     // look-ups of the server's name
};

// Makes a key, exchanges the token for its certificate, and writes the machine's files.
// Failure: kInvalidArgument (the token lacks a part, or names a socket of this machine; nobody is
// asked), kPermissionDenied (the token is used, expired or of another server), kInvalidSyntax (an
// answer is no JSON), kUnavailable, kDeadlineExceeded, kInvalidCertificate and others of
// net::HttpClient (the server cannot be asked); bootstrap()'s. Those before the certificate leave
// the token unused. After it, the token is used up: the machine needs another one.
// Thread: any but those of `host`, one at a time for one directory; with `as_proxy_user` no other
// call of this library at the same time, and no thread that needs root. Blocking: until the server
// has answered twice, on the files, and while another process changes them.
OSM_API Result<Bootstrapped> join(const JoinOptions& options, const JoinHost& host);

}  // namespace osm::inline v1::machine
