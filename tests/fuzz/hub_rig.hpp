// The hub of ads' unit tests. Their checks need a test around them, so they are off here.
#pragma once

#define DOCTEST_CONFIG_DISABLE
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wunused-private-field"
#endif
#include "ads/hub_rig.hpp"
#pragma GCC diagnostic pop
