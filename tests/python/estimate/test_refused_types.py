"""Arguments that torch refuses on a GPU: the program sees torch's error, not a prediction."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

HALF = torch.float16


def floats(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def wanted(*shape):
    return floats(*shape).requires_grad_()


def integers(*shape):
    return torch.ones(*shape, dtype=torch.int64, device="cuda")


def complex_numbers(*shape):
    return torch.complex(floats(*shape), floats(*shape))


def loss_of_integers(loss):
    return lambda: loss(wanted(4), integers(4)).backward()


REFUSED = {
    "linear": (
        lambda: functional.linear(floats(2, 4, 8), floats(3, 8, dtype=HALF)),
        "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half",
    ),
    "bias": (
        lambda: functional.linear(floats(4, 8, dtype=HALF), floats(3, 8, dtype=HALF), floats(3)),
        "self and mat2 must have the same dtype, but got Float and Half",
    ),
    "matmul": (
        lambda: floats(2, 4, 8) @ floats(2, 8, 3, dtype=HALF),
        "expected scalar type Float but found Half",
    ),
    "convolution": (
        lambda: functional.conv2d(floats(1, 3, 8, 8, dtype=HALF), floats(4, 3, 3, 3)),
        r"Input type \(torch.cuda.HalfTensor\) and weight type \(torch.cuda.FloatTensor\) should",
    ),
    "transposed": (
        lambda: functional.conv_transpose2d(floats(1, 5, 4, 4), floats(3, 4, 3, 3)),
        r"Given transposed=1, .* to have 3 channels, but got 5 channels instead",
    ),
    "mse": (loss_of_integers(functional.mse_loss), "Found dtype Long but expected Float"),
    "huber": (loss_of_integers(functional.huber_loss), "Found dtype Long but expected Float"),
    "bce": (
        lambda: functional.binary_cross_entropy(floats(4).sigmoid(), floats(4, dtype=HALF)),
        "Found dtype Half but expected Float",
    ),
    "logits": (
        loss_of_integers(functional.binary_cross_entropy_with_logits),
        "result type Float can't be cast to the desired output type Long",
    ),
    "weighted": (
        lambda: functional.cross_entropy(wanted(4, 5), integers(4), floats(5, dtype=HALF)),
        "expected scalar type Float but found Half",
    ),
    "batch norm": (
        lambda: torch.nn.BatchNorm1d(3).cuda().half()(floats(2, 3)),
        "expected scalar type Float but found Half",
    ),
    "mask": (
        lambda: floats(4).masked_fill(floats(4), 0.0),
        "masked_fill_ only supports boolean masks, but got mask with dtype float",
    ),
    "copy": (
        lambda: floats(4).index_copy_(0, integers(1), floats(1, dtype=HALF)),
        r"index_copy_\(\): self and source expected to have the same dtype",
    ),
    "gelu": (lambda: functional.gelu(integers(4)), "not implemented for 'Long'"),
    "pool": (lambda: functional.max_pool2d(integers(1, 1, 4, 4), 2), "not implemented for 'Long'"),
    "average": (
        lambda: functional.avg_pool2d(integers(1, 1, 4, 4), 2),
        "not implemented for 'Long'",
    ),
    "volume": (
        lambda: functional.avg_pool3d(integers(1, 1, 4, 4, 4), 2),
        "not implemented for 'Long'",
    ),
    "patches": (lambda: functional.unfold(integers(1, 1, 4, 4), 2), "not implemented for 'Long'"),
    "folded": (lambda: functional.fold(integers(1, 4, 9), 4, 2), "not implemented for 'Long'"),
    "batches": (lambda: integers(2, 4, 4) @ integers(2, 4, 4), "not implemented for 'Long'"),
    "vector": (lambda: integers(4, 4) @ integers(4), "not implemented for 'Long'"),
    "remainder": (lambda: complex_numbers(4) % 2, "not implemented for 'ComplexFloat'"),
    "remainder in place": (
        lambda: complex_numbers(4).fmod_(2),
        "not implemented for 'ComplexFloat'",
    ),
    "order": (lambda: complex_numbers(4).sort(), "Sort currently does not support complex dtypes"),
    "distances": (
        lambda: torch.cdist(floats(4, 3, dtype=HALF), floats(25, 3, dtype=HALF)),
        "\"cdist_cuda\" not implemented for 'Half'",
    ),
    "other distances": (
        lambda: torch.cdist(floats(40, 3, dtype=HALF), floats(40, 3, dtype=HALF), p=1),
        "\"cdist_cuda\" not implemented for 'Half'",
    ),
    "spectrum": (
        lambda: torch.stft(floats(1, 400, dtype=HALF), 100, return_complex=True),
        r"powers of two when computing in half precision, but got a signal size of\[100\]",
    ),
    "image": (
        lambda: torch.fft.fft2(floats(2, 64, 48, dtype=HALF)),
        "powers of two when computing in half precision",
    ),
    "spread": (lambda: integers(4).std(), "std and var only support floating point"),
    "solve": (
        lambda: torch.linalg.solve(floats(4, 4, dtype=HALF), floats(4, 4, dtype=HALF)),
        "not implemented for 'Half'",
    ),
    "flash": (lambda: flash_attention(), "No available kernel. Aborting execution."),
}


def flash_attention():
    inputs = floats(1, 8, 128, 64)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        return functional.scaled_dot_product_attention(inputs, inputs, inputs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_is_refused(estimate, name):
    call, sentence = REFUSED[name]
    with pytest.raises(RuntimeError, match=sentence):
        call()
    # It is the program's own error, each time.
    with pytest.raises(RuntimeError, match=sentence):
        call()


def test_types_that_torch_accepts_are_accepted(estimate):
    half = floats(2, 3, 4, 4, dtype=HALF)
    functional.batch_norm(half, torch.zeros(3).cuda(), torch.ones(3).cuda(), floats(3), floats(3))
    functional.mse_loss(wanted(4), floats(4)).backward()
    functional.binary_cross_entropy_with_logits(wanted(4), floats(4, dtype=HALF))
    functional.cross_entropy(wanted(4, 5), integers(4), floats(5)).backward()
    floats(4).masked_fill_(integers(4).bool(), 0.0)
    assert integers(4).float().std().dtype == torch.float32
    functional.unfold(integers(1, 1, 4, 4).bool(), 2)
    functional.avg_pool2d(half, 2)
    assert (integers(4) % 2).dtype == torch.int64
    assert (integers(4).bool() % 2).dtype == torch.int64
    # Products stand in for the kernel that has no code for halves.
    assert torch.cdist(floats(26, 3, dtype=HALF), floats(4, 3, dtype=HALF)).dtype == HALF
    assert torch.cdist(floats(4, 3), floats(4, 3), p=1).dtype == torch.float32
    spectrum = torch.stft(floats(1, 400, dtype=HALF), 128, return_complex=True)
    assert spectrum.dtype == torch.complex32
    assert torch.fft.irfft(torch.fft.rfft(floats(4, 64, dtype=HALF))).dtype == HALF
    with torch.autocast("cuda", dtype=HALF):
        assert functional.linear(floats(4, 8), floats(3, 8, dtype=HALF)).dtype == HALF
        functional.mse_loss(wanted(4).half(), floats(4)).backward()


def test_pinned_tensors_say_that_they_are(estimate):
    pinned = torch.empty(4, 4, pin_memory=True)
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert not torch.empty(4).is_pinned()
    assert torch.ones(4).pin_memory().is_pinned()
    assert not pinned.cuda(non_blocking=True).is_pinned()
    data = torch.utils.data.TensorDataset(torch.randn(4, 2))
    (batch,) = next(iter(torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)))
    assert batch.is_pinned()


def test_addresses_of_host_memory_cannot_be_read_by_accident(estimate):
    first, second = torch.randn(1000), torch.randn(1000)
    assert first.data_ptr() != second.data_ptr()
    assert first[10:].data_ptr() == first.data_ptr() + 40
    assert first.untyped_storage().data_ptr() == first.data_ptr()
    assert first.data_ptr() >= 1 << 56
