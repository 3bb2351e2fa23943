// SPDX-License-Identifier: Apache-2.0

package signature

// A key on the curve P-256 and its signature, as openssl writes them.
const (
	opensslECKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEZ6/BBwtF2+ueLSbeRJodrAzipHR6
z9cg4SzgH5DkCG0V4g0XQojJIeL3zYrasdy94Ar0c8F5XXsbRnJrUbeL1A==
-----END PUBLIC KEY-----
`
	opensslECSignature = "MEYCIQDPAM46x9U/lIk37KXS3TbPF/ZW0kYqZpqvMukD+UKjUw" +
		"IhALbDwoedeYWImSuKc0l6r3vx45YnNymdQmgwyXgBnao9"
)

// An RSA key of 2048 bits and its signature.
const (
	opensslRSAKey = `-----BEGIN PUBLIC KEY-----
MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA1Ei1YjPXZXMZSRF7n0C9
VxipcNwfRMCnhbMGGNxc3jD2yxbZ2Bx64iPPTIefFbf/eMFyIjWVX7MGkUi3imG9
AbkHtpfAGrowFSAmQIeuynM6jT4TEPcKfQrzUjED6v3VzdnmmwYOfGpD4Xu/LCvZ
2oqlDuiJQgC726Vm3rNDCyKs/sgCzr6j7zSlVpGvVztYRgOWXla5+Zda+2NiDoK2
A02EzlGBqSu2j2Whfiul0MMOBQzxDMMqS6Pn5uZH3W49auNLe/1Y2Yzs1RyEaefF
ckrb5VpkfE/Z55OtjkEAUbyal8id5rFUV0+Se4qXSque6mmSEad36+oG+Gxi4rE6
8wIDAQAB
-----END PUBLIC KEY-----
`
	opensslRSASignature = "PLwOv0u+pGEbrv82KX7H8/bH5xrvURYbliGDieGGRvUwL6h36a" +
		"UZsYA07NCpFCESbGrebN1Zuk4eyZvpy24CEBIoae5Fn2uYEeJx" +
		"um90ZBMl/FzYqgd9PJ8xVl1kGgc7McnQ4Bawcc4c5D4p6wSklu" +
		"x9+Le0sE3tFCAH7g8yTUt4di5CcqcCa0Iq0LqR/FdD8J6PSBlr" +
		"VlbfxSjPCC3RFWFOwp1UqgMFAnv0ruJ70CS5PL9AwjFnvbXCUD" +
		"5BsiVZ1b6v+Ws6WWZncyY30B9D0usQUG9kr/JgJjL8RvpNsaGd" +
		"61QS1MEv90sOLofMfIcRGjbPDxsBb6FJfwoASFKCQw=="
)

// A key of cosign, and the signature in the bundle that it writes.
const (
	cosignKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEJHV8BhFkbYI/HD87WbgpOTQ3xjOX
AQ7CqrmQNU72WkU6taWvKjE8hCcTgZNMs4ZdtkegynL4Q+Nh1TBMyl4mhQ==
-----END PUBLIC KEY-----
`
	cosignSignature = "MEQCIDBb0FE+tUUerFOseJ1B/2EoV9QTFgTwYDaPO6wPG7RmAi" +
		"B+zacmQ+LrQvYbu8Mr9c502j8Xrq0aVS6g/po7l4/XUQ=="
)

// shortKey is an RSA key of 1024 bits.
const shortKey = `-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC+oUUEye3x7SZsSgYfjDaenxL4
9uF2tV6pCP/kaQQZH1MbnA2gYUzKai8znbr4RbKjYDt0EDzq0ePoYJFwO2mAYHgw
joGnHT61oRjnL0ePQzPsFMQDcIUVg/5mF4hXXgUnMtXD8RisHpGsfm6pAmPY2Oa3
HXpJmwsGfZ+dUPXWFwIDAQAB
-----END PUBLIC KEY-----
`
