// Counting: the public interface for whoever profiles scopes in this process, as capture.h is for
// whoever records. Start counting a device (ledger.h), attach its feed (cuda_report.h, or
// attach_cpu() of capture.h), then open scopes (scope.h) or start a sampler (sampler.h).
#pragma once

#include "capture/capture.h"      // IWYU pragma: export
#include "capture/card.h"         // IWYU pragma: export
#include "capture/cuda_report.h"  // IWYU pragma: export
#include "capture/ledger.h"       // IWYU pragma: export
#include "capture/record.h"       // IWYU pragma: export
#include "capture/resident.h"     // IWYU pragma: export
#include "capture/sampler.h"      // IWYU pragma: export
#include "capture/scope.h"        // IWYU pragma: export
