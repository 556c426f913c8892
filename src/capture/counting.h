// Counting: the public interface for profiling scopes of this process, as capture.h is for
// recording it. Start counting a device (ledger.h), attach its feed (cuda_report.h, or
// attach_cpu() of capture.h), then open scopes (scope.h) or start a sampler (sampler.h).
#pragma once

#include "capture/capture.h"            // IWYU pragma: export
#include "capture/device_slot.h"        // IWYU pragma: export
#include "capture/hooks/cuda_report.h"  // IWYU pragma: export
#include "capture/ledger/card.h"        // IWYU pragma: export
#include "capture/ledger/ledger.h"      // IWYU pragma: export
#include "capture/ledger/resident.h"    // IWYU pragma: export
#include "capture/ledger/sampler.h"     // IWYU pragma: export
#include "capture/ledger/scope.h"       // IWYU pragma: export
