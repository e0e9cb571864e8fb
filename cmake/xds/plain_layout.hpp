// Included before everything that uses the Envoy API under ThreadSanitizer. protobuf then gives map
// fields another layout than libprotobuf and the API, which are built without, were given.
#pragma once

#include <bits/c++config.h>  // libstdc++ has seen the sanitizer by now

#undef __SANITIZE_THREAD__
