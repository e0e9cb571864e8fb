// The token with which a machine joins, as people carry it: one line of text.
#pragma once

#include <cstddef>
#include <string>

#include "osm/result.hpp"

namespace osm::cli {

struct JoinToken {
  std::string id;
  std::string secret;
  std::string join;         // HOST:PORT that the machine asks
  std::string server_name;  // in that server's certificate
  std::string controller;   // HOST:PORT of the ADS server
  std::string roots;        // PEM: they verify the server
};

inline constexpr std::size_t kMaxJoinToken = 256 * 1024;  // bytes; roots of a CA may be many

std::string encode_join_token(const JoinToken& token);

// `source`: where the text is from, for errors. Failure: kInvalidArgument, which does not quote it.
Result<JoinToken> decode_join_token(std::string text, const std::string& source);

}  // namespace osm::cli
